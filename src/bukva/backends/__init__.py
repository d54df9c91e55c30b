"""Compute the models of bukva.models faster, with one backend for each kind of hardware.

bukva.models is plain torch and runs without a backend. A backend replaces parts of a model with faster code that
computes the same result; tests compare every backend with the plain model. `attach` replaces the blocks of a model.
The training loop gets its worker processes and its update function from the backend. `compute.backend: plain` in
params.yaml turns backends off.

    cpu     fused sublayers for training, a decoder for text generation, one worker process for each core
    cuda    a whole update as one CUDA graph, a compiled loss function, text generation by small models on the CPU
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
    """Return the backend for the machine's device.

    Return the plain backend if params.yaml selects it, or if the device has no backend of its own.
    """
    name = BACKENDS.get(machine.device.type)
    if machine.is_plain or name is None:
        return Backend()
    backend = importlib.import_module(name).BACKEND
    assert isinstance(backend, Backend)
    return backend


def generation_copy(model: LanguageModel, machine: Machine) -> LanguageModel:
    """Return the model to generate text with.

    It is a copy on the CPU if `model` is small and on a GPU (see `generation_machine`), else `model` itself.
    """
    target = generation_machine(model, machine)
    if target == machine:
        return model
    copied = copy.deepcopy(model).to(target.device)
    attach(copied, target)
    return copied


def attach(model: LanguageModel, machine: Machine) -> None:
    """Replace the blocks of a GPT, in place, with the blocks of the machine's backend. Do nothing for other models.

    The weights, their names and the computed values stay the same. A later call may attach another backend.
    """
    if isinstance(model, GPT):
        model.blocks = backend_of(machine).stack(Stack(model.blocks)).train(model.training)
