"""Define the process group: an interface through which processes that train one model exchange data.

The interface has three implementations: a single process (`Group` itself), forked processes on one CPU
(bukva.backends.cpu.forks), and processes of torch.distributed (bukva.training.distributed).
"""

from dataclasses import dataclass

from torch import Tensor, nn


@dataclass(frozen=True)
class Group:
    """A group of processes that train one model together. Each process has its own `Group` object.

    This base class is a group of a single process.

    rank: number of this process in the group, counted from 0. Only rank 0 logs and writes files.
    size: number of processes in the group.
    local_rank: number of this process among the processes on this machine. Ranks on one machine are consecutive.
    local_size: number of processes on this machine.
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
        """Whether the process with rank 0 runs on this machine."""
        return self.rank < self.local_size

    def sum_gradients(self, parameters: list[Tensor], nats: Tensor) -> tuple[Tensor, Tensor]:
        """Add up the gradients of all processes, in place, for each parameter that this process updates.

        The gradients of all other parameters become None.

        Args:
            parameters: all parameters of the model.
            nats: scalar, the part of the batch's loss that this process has computed, in nats.

        Returns:
            Two scalars: the sum of `nats` over all processes, and the norm of the summed gradient of all parameters.

        Raises:
            BukvaError: another process has ended or does not respond.
        """
        return nats, norm_of(parameters)

    def barrier(self) -> None:
        """Wait until every process in the group has called this method.

        The training loop calls this method after each update of the shared weights.
        """

    def sum(self, value: float) -> float:
        """Return the sum of `value` over all processes. Every process gets the same result.

        Raises:
            BukvaError: another process has ended or does not respond.
        """
        return value

    def broadcast(self, content: bytes) -> bytes:
        """Send `content` from rank 0 to all processes, and return it. The argument of other processes is ignored."""
        return content


ALONE = Group()


def norm_of(parameters: list[Tensor]) -> Tensor:
    """Return the L2 norm of all gradients, taken as one vector. Parameters without a gradient are skipped."""
    return nn.utils.get_total_norm([parameter.grad for parameter in parameters if parameter.grad is not None])
