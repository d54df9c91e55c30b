"""The protocol of processes that train one model together.

Three groups follow it: one process alone (here), the forked workers of a CPU (bukva.backends.cpu.forks), and the
processes of torch.distributed (bukva.training.distributed).
"""

from dataclasses import dataclass

from torch import Tensor, nn


@dataclass(frozen=True)
class Group:
    """One process and its place among those that train a model. This class is a group of one.

    rank: number of this process; rank 0 logs and writes for all.
    size: number of processes.
    local_rank, local_size: the same among the processes on this machine; the ranks of a machine are consecutive.
    """

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    local_size: int = 1

    @property
    def leads(self) -> bool:
        """Whether this is rank 0."""
        return self.rank == 0

    @property
    def is_on_leader_machine(self) -> bool:
        """Whether rank 0 is on this machine."""
        return self.rank < self.local_size

    def sum_gradients(self, parameters: list[Tensor], nats: Tensor) -> tuple[Tensor, Tensor]:
        """Sum the gradients over all processes, for the parameters that this process updates.

        The gradients of parameters that other processes update are dropped.

        Args:
            parameters: all parameters of the model.
            nats: scalar, the loss of this process's share of the batch.

        Returns:
            The sum of nats over all processes, and the norm of the whole gradient; scalars.

        Raises:
            BukvaError: another process has ended or does not respond.
        """
        return nats, norm_of(parameters)

    def barrier(self) -> None:
        """Wait until all processes have updated weights that they share."""

    def sum(self, value: float) -> float:
        """Return the sum of one number of each process, the same in all processes.

        Raises:
            BukvaError: another process has ended or does not respond.
        """
        return value

    def broadcast(self, content: bytes) -> bytes:
        """Return the bytes that rank 0 holds."""
        return content


ALONE = Group()


def norm_of(parameters: list[Tensor]) -> Tensor:
    """Norm of the gradients of all parameters that have one, a scalar."""
    return nn.utils.get_total_norm([parameter.grad for parameter in parameters if parameter.grad is not None])
