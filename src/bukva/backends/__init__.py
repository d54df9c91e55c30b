"""Backends that compute the models of bukva.models faster on one kind of hardware.

bukva.models is plain torch and runs without a backend. A backend replaces parts of a model with faster code that
computes the same result; tests compare every backend with the plain model. `attach` replaces the blocks of a model.
The training loop asks the backend for worker processes and for the update function. `compute.backend: plain` in
params.yaml turns backends off.

    cpu     fused sublayers, a decoder for single positions, one process for each core
    cuda    a whole update as one CUDA graph, compiled losses, text generation by small models on the CPU
"""

import copy
import importlib

from bukva.backends.base import Backend
from bukva.backends.device import Machine, generation_machine
from bukva.models.base import LanguageModel
from bukva.models.gpt import GPT, Stack

# device type -> module that defines BACKEND
BACKENDS = {"cpu": "bukva.backends.cpu.backend", "cuda": "bukva.backends.cuda.backend"}


def backend_of(machine: Machine) -> Backend:
    """Return the backend for the machine's device, or the plain one if params.yaml selects it or no other fits."""
    name = BACKENDS.get(machine.device.type)
    if machine.is_plain or name is None:
        return Backend()
    backend = importlib.import_module(name).BACKEND
    assert isinstance(backend, Backend)
    return backend


def generation_copy(model: LanguageModel, machine: Machine) -> LanguageModel:
    """Return the model to generate text with: a copy on the CPU for a small model on a GPU, else the model itself.

    `generation_machine` makes the choice.
    """
    target = generation_machine(model, machine)
    if target == machine:
        return model
    copied = copy.deepcopy(model).to(target.device)
    attach(copied, target)
    return copied


def attach(model: LanguageModel, machine: Machine) -> None:
    """Replace the blocks of a GPT with the blocks of the machine's backend. Other models are not changed.

    The weights, their names and the computed values stay the same. A second call replaces the result of the first.
    """
    if isinstance(model, GPT):
        model.blocks = backend_of(machine).stack(Stack(model.blocks)).train(model.training)
