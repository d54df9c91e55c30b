"""Train a GPT on a CPU with one process for each core and compiled transformer blocks."""

import contextlib
import functools
import sys
from collections.abc import Callable, Iterator

from bukva.backends.base import Backend, TrainingJob, Update
from bukva.backends.cpu import forks
from bukva.backends.group import ALONE, Group
from bukva.models.gpt import GPT, Block


@functools.cache  # once, because `bukva plan` trains several models
def _say_slow() -> None:
    print(
        "CPU: Updates take longer, because blocks with biases, RMSNorm or an odd number of channels in a head run in "
        "plain torch (model.bias, model.norm, model.n_embd / model.n_head).",
        file=sys.stderr,
        flush=True,
    )


class CPU(Backend):
    """Backend that trains with one process for each core, and computes transformer blocks with compiled loops."""

    @property
    def block(self) -> type[Block]:
        from bukva.backends.cpu.sublayers import CPUBlock  # imports numba, which a bigram does not need

        return CPUBlock

    @contextlib.contextmanager
    def workers(self, job: TrainingJob, work: Callable[[Group], None]) -> Iterator[Group]:
        n = 1  # an update of a bigram is too cheap to split across processes
        if isinstance(job.model, GPT):
            from bukva.backends.cpu.sublayers import serves

            n = forks.n_forks(*job.batch_shape)
            if not all(map(serves, job.model.blocks)):
                _say_slow()
        if n == 1:
            yield ALONE
            return
        with forks.forked(n, work, list(job.model.parameters()), job.optimizer.tensors()) as group:
            yield group

    def prepare_update(self, job: TrainingJob, update: Update, group: Group) -> Update:  # noqa: ARG002
        """Let Muon use compiled loops, and return `update`."""
        for optimizer in job.optimizer.optimizers:
            if hasattr(optimizer, "directions"):
                from bukva.backends.cpu import loops

                optimizer.directions, optimizer.move = loops.muon_directions, loops.muon_move
        return update


BACKEND = CPU()
