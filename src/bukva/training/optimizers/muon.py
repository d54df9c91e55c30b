"""Muon, an optimizer that orthogonalizes the momentum of weight matrices.

Before each update, the momentum of a matrix is replaced by the nearest matrix with orthonormal rows or columns. So the
update is equally large in all directions, even in directions that are rare in the gradients.

Sources: Jordan et al. 2024, "Muon: An optimizer for hidden layers in neural networks" (Nesterov momentum and the
Newton-Schulz iteration); Amsel et al. 2025, "The Polar Express" (choice of the coefficients); Liu et al. 2025, "Muon is
scalable for LLM training" (updates as large as AdamW's, so that both use the same learning rate and weight decay);
Chang et al. 2026, "MuonEq" (rows of equal length before the orthogonalization).

torch.optim.Muon updates one matrix at a time. Here all matrices of the same shape are updated in one batch.
"""

from collections import defaultdict
from typing import Any

import torch
from torch import Tensor

from bukva.core.schema import TrainGPT
from bukva.models.base import LanguageModel
from bukva.training.optimizers.adamw import Optimizers, Uncompiled, adamw

# Coefficients of each iteration, for singular values from 0.004 to 1. Each iteration is the odd polynomial of degree 5
# that is nearest to 1 on the interval to which the earlier iterations map these values. All iterations except the last
# divide their input by 1.01, because bf16 rounds. The coefficients include this division. Five iterations with the
# coefficients of Jordan et al. train equally well. Three iterations, with coefficients chosen in the same way, are
# worse by 0.03 bits per character (docs/dev/log.md).
COEFFICIENTS = (
    (8.2584, -23.8741, 17.3387),
    (3.9386, -2.8782, 0.5369),
    (3.2945, -2.4219, 0.4860),
    (2.3086, -1.6760, 0.4196),
)
ADAMW_SIZE = 0.2  # root mean square of an AdamW update, as a multiple of the learning rate
MOMENTUM = 0.95


def build(model: LanguageModel, recipe: TrainGPT, dtype: torch.dtype) -> Optimizers:
    """Build Muon for the weight matrices of hidden layers, and AdamW for all other parameters.

    Muon does not update embeddings and the output layer, because each of their rows belongs to a single character.
    """
    hidden = model.hidden_matrices()
    groups: list[dict[str, Any]] = [
        {"params": [weight for weight, n in hidden.items() if n == n_stacked], "n_stacked": n_stacked}
        for n_stacked in sorted(set(hidden.values()))
    ]
    rest = [parameter for parameter in model.parameters() if parameter not in hidden]
    muon = [Muon(groups, recipe.learning_rate, recipe.weight_decay, dtype)] if groups else []
    return Optimizers([*muon, adamw(rest, recipe)])


def orthogonalize(matrices: Tensor) -> Tensor:
    """Orthogonalize n matrices, (n, rows, columns), approximately.

    The result has the same singular vectors, and singular values between 0.7 and 1.2, if those of `matrices` are
    between 0.004 and 1.
    """
    tall = matrices.shape[-2] > matrices.shape[-1]
    x = matrices.mT.contiguous() if tall else matrices  # keeps `gram` small: short side by short side
    for a, b, c in COEFFICIENTS:
        gram = x @ x.mT
        factor = torch.baddbmm(gram, gram, gram, beta=b, alpha=c)  # b gram + c gram^2
        x = torch.baddbmm(x, factor, x, beta=a)  # a x + factor x
    return x.mT if tall else x


class Muon(Uncompiled):
    """Optimizer that updates weight matrices by their orthogonalized momentum.

    In each parameter group, `n_stacked` is the number of matrices that are stacked along the rows of each parameter.
    The weight decay is decoupled, as in AdamW. `dtype` is the precision of the matrix products; bfloat16 is sufficient.
    """

    def __init__(self, groups: list[dict[str, Any]], lr: float, weight_decay: float, dtype: torch.dtype) -> None:
        super().__init__(groups, {"lr": lr, "weight_decay": weight_decay, "n_stacked": 1})
        self.dtype = dtype
        for group in groups:
            for parameter in group["params"]:
                self.state[parameter] = {"momentum": torch.zeros_like(parameter)}

    @torch.no_grad()
    def step(self) -> None:
        """Update every matrix that has a gradient. Matrices of the same shape are updated in one batch."""
        by_shape = defaultdict(list)
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    rows, columns = parameter.shape
                    by_shape[rows // group["n_stacked"], columns].append(parameter)
        rate, weight_decay = (self.param_groups[0][name] for name in ("lr", "weight_decay"))  # equal in all groups
        for shape, parameters in by_shape.items():
            gradients = [parameter.grad for parameter in parameters]
            momenta = [self.state[parameter]["momentum"] for parameter in parameters]
            self.update(parameters, gradients, momenta, shape, rate, weight_decay)

    def update(
        self,
        parameters: list[Tensor],
        gradients: list[Tensor],
        momenta: list[Tensor],
        shape: tuple[int, int],
        rate: float | Tensor,
        weight_decay: float,
    ) -> None:
        """Update parameters whose matrices have the same `shape`. A GPU may run a compiled version of this method."""
        matrices = self.directions(gradients, momenta, shape, MOMENTUM, self.dtype)
        updates = orthogonalize(matrices).reshape(-1, shape[1])
        scale = ADAMW_SIZE * max(shape) ** 0.5
        self.move(parameters, updates, 1 - rate * weight_decay, rate * scale)

    # The backend of CPUs replaces the following two methods by compiled loops.

    @staticmethod
    def directions(
        gradients: list[Tensor], momenta: list[Tensor], shape: tuple[int, int], momentum: float, dtype: torch.dtype
    ) -> Tensor:
        """Update the momenta, and return the (n, rows, columns) matrices to orthogonalize."""
        torch._foreach_lerp_(momenta, gradients, 1 - momentum)
        ahead = torch._foreach_lerp(gradients, momenta, momentum)  # Nesterov momentum
        matrices = torch.cat(ahead).view(-1, *shape)
        matrices /= matrices.norm(dim=-1, keepdim=True) + 1e-7  # so that rows with small gradients learn as fast
        matrices /= matrices.norm(dim=(-2, -1), keepdim=True) + 1e-7  # now no singular value exceeds 1
        return matrices.to(dtype)

    @staticmethod
    def move(parameters: list[Tensor], updates: Tensor, kept: float | Tensor, size: float | Tensor) -> None:
        """Multiply the parameters by `kept`, and subtract `size` times the rows of `updates`."""
        parts = updates.float().split([len(parameter) for parameter in parameters])
        torch._foreach_mul_(parameters, kept)
        if isinstance(size, Tensor):  # `alpha` must be a number, and reading the tensor would wait for the GPU
            torch._foreach_sub_(parameters, torch._foreach_mul(parts, size))
        else:
            torch._foreach_sub_(parameters, parts, alpha=size)
