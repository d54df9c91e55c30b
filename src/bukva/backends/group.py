"""Define the interface by which several processes train one model together.

The interface has three implementations: a single process (`Group` itself), the forked workers of a CPU
(bukva.backends.cpu.forks), and the processes of torch.distributed (bukva.training.distributed).
"""

from dataclasses import dataclass

from torch import Tensor, nn


@dataclass(frozen=True)
class Group:
    """A process group that trains one model, as one process sees it. This base class is a group of one process.

    rank: rank of this process; only rank 0 logs and writes files.
    size: number of processes.
    local_rank: rank of this process among the processes on this machine; ranks on one machine are consecutive.
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
        """Whether rank 0 is on this machine."""
        return self.rank < self.local_size

    def sum_gradients(self, parameters: list[Tensor], nats: Tensor) -> tuple[Tensor, Tensor]:
        """Sum the gradients over all processes, in place, for the parameters that this process updates.

        The gradients of parameters that another process updates become None.

        Args:
            parameters: all parameters of the model.
            nats: scalar, the contribution of this process to the loss of the batch.

        Returns:
            Two scalars: the sum of `nats` over all processes, and the norm of the gradient of all parameters.

        Raises:
            BukvaError: another process has ended or does not respond.
        """
        return nats, norm_of(parameters)

    def barrier(self) -> None:
        """Wait until all processes have called this method, after each has updated its part of shared weights."""

    def sum(self, value: float) -> float:
        """Return the sum of `value` over all processes. Every process gets the same result.

        Raises:
            BukvaError: another process has ended or does not respond.
        """
        return value

    def broadcast(self, content: bytes) -> bytes:
        """Return the `content` that rank 0 passes. In the other processes, the argument is ignored."""
        return content


ALONE = Group()


def norm_of(parameters: list[Tensor]) -> Tensor:
    """Return the norm of all gradients together, as a scalar. Parameters without a gradient are skipped."""
    return nn.utils.get_total_norm([parameter.grad for parameter in parameters if parameter.grad is not None])
