"""Run the models of bukva.models faster, with a backend for each kind of hardware.

The models are plain torch. A backend replaces parts of a model with faster code that computes the same result. Tests
compare every backend with plain torch. A backend has three parts: transformer blocks (see `attach`), worker processes
for training, and a faster function for one update. `compute.backend: plain` in params.yaml turns backends off.

    cpu     computes the blocks with compiled loops, and trains with one process for each core
    cuda    runs each update as one CUDA graph, and compiles the loss function; small models generate text on the CPU
"""

import copy
import importlib

from bukva.backends.base import Backend
from bukva.backends.device import Machine, generation_device
from bukva.models.base import LanguageModel
from bukva.models.gpt import GPT

# for each device type, the module that defines BACKEND
BACKENDS = {"cpu": "bukva.backends.cpu", "cuda": "bukva.backends.cuda"}


def backend_of(machine: Machine) -> Backend:
    """Return the backend for the device of `machine`, or the plain one if params.yaml turns backends off."""
    name = BACKENDS.get(machine.device.type)
    if machine.is_plain or name is None:
        return Backend()
    backend = importlib.import_module(name).BACKEND
    assert isinstance(backend, Backend)
    return backend


def generation_copy(model: LanguageModel, machine: Machine) -> LanguageModel:
    """Return a copy of `model` on the CPU if text generation is faster there, otherwise `model` itself."""
    device = generation_device(model, machine)
    return model if device == machine.device else copy.deepcopy(model).to(device)


def attach(model: LanguageModel, machine: Machine) -> None:
    """Replace the transformer blocks of a GPT in place by faster blocks for this machine, with the same weights."""
    if isinstance(model, GPT):
        for block in model.blocks:
            block.__class__ = backend_of(machine).block
