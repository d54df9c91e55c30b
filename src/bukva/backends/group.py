"""The process group, through which processes that train one model exchange data.

It is a single process (`Group` itself), forked processes on one CPU (bukva.backends.cpu.forks), or processes of
torch.distributed (bukva.training.distributed).
"""

from dataclasses import dataclass

from torch import Tensor, nn


@dataclass(frozen=True)
class Group:
    """A group of processes that train one model together. Each process has its own `Group` object.

    Only rank 0 logs and writes files. `local_rank` and `local_size` count the processes on this machine, whose ranks
    are consecutive. The methods raise BukvaError if another process has ended or does not respond.
    """

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    local_size: int = 1

    @property
    def is_leader(self) -> bool:
        """Whether this process is rank 0."""
        return self.rank == 0

    @property
    def is_on_leader_machine(self) -> bool:
        """Whether rank 0 runs on this machine."""
        return self.rank < self.local_size

    def sum_gradients(self, parameters: list[Tensor], nats: Tensor) -> tuple[Tensor, Tensor]:
        """Add up the gradients of all processes, in place, for each parameter that this process updates.

        The gradients of all other parameters become None. Return two scalars: the sum over all processes of `nats`, the
        parts of the batch's loss, and the norm of the summed gradient of all parameters.
        """
        return nats, norm_of(parameters)

    def barrier(self) -> None:
        """Wait until every process in the group has called this method, after each update of the shared weights."""

    def sum(self, value: float) -> float:
        """Return the sum of `value` over all processes. Every process gets the same bits."""
        return value

    def broadcast(self, content: bytes) -> bytes:
        """Return the `content` of rank 0 in every process."""
        return content


ALONE = Group()


def norm_of(parameters: list[Tensor]) -> Tensor:
    """Return the L2 norm of all gradients, taken as one vector. Parameters without a gradient are skipped."""
    return nn.utils.get_total_norm([parameter.grad for parameter in parameters if parameter.grad is not None])
