"""Backends compute the models of bukva.models faster on a kind of hardware.

bukva.models is plain torch and runs without a backend. A backend replaces parts of it by code that computes the same
faster; tests compare every backend with the plain model. compute.backend in params.yaml turns backends off. `attach`
gives a model the blocks of a backend, and the training loop takes its worker processes and its update.

    cpu     fused sublayers, a decoder for single positions, one process for each core
    cuda    a whole update as one CUDA graph, compiled losses, small models that write on the CPU
"""

import copy
import importlib

from bukva.backends.base import Backend
from bukva.backends.device import Machine, generation_machine
from bukva.models.base import LanguageModel
from bukva.models.gpt import GPT, Stack

# device type -> module with a BACKEND
BACKENDS = {"cpu": "bukva.backends.cpu.backend", "cuda": "bukva.backends.cuda.backend"}


def backend_of(machine: Machine) -> Backend:
    """Return the backend for a machine's device, or the plain one if params.yaml asks for it or none fits."""
    name = BACKENDS.get(machine.device.type)
    if machine.is_plain or name is None:
        return Backend()
    backend = importlib.import_module(name).BACKEND
    assert isinstance(backend, Backend)
    return backend


def generation_copy(model: LanguageModel, machine: Machine) -> LanguageModel:
    """Return the model itself, or its copy on the CPU if it is small and on a GPU (see generation_machine)."""
    used = generation_machine(model, machine)
    if used == machine:
        return model
    copied = copy.deepcopy(model).to(used.device)
    attach(copied, used)
    return copied


def attach(model: LanguageModel, machine: Machine) -> None:
    """Let the machine's backend compute the blocks of a GPT; other models stay as they are.

    Weights, their names and what is computed stay the same. A second call replaces what the first one attached.
    """
    if isinstance(model, GPT):
        model.blocks = backend_of(machine).stack(Stack(model.blocks)).train(model.training)
