"""Prepare and apply the updates of Muon in one pass over memory each, with the results of `Muon`."""

import torch
from torch import Tensor

from bukva.backends.cpu import loops
from bukva.backends.cpu.loops import array


def directions(
    gradients: list[Tensor], momenta: list[Tensor], shape: tuple[int, int], momentum: float, dtype: torch.dtype
) -> Tensor:
    n_rows = [len(gradient) for gradient in gradients]
    matrices = torch.empty(sum(n_rows), shape[1], dtype=dtype)
    for gradient, mean, part in zip(gradients, momenta, matrices.split(n_rows), strict=True):
        loops.muon_directions(array(gradient), array(mean), shape[0], momentum, array(part))
    return matrices.view(-1, *shape)


def move(parameters: list[Tensor], updates: Tensor, kept: float, size: float) -> None:
    for parameter, part in zip(parameters, updates.split([len(each) for each in parameters]), strict=True):
        loops.muon_move(array(parameter), array(part), kept, size)
