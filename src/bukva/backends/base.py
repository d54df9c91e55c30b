"""What a backend may replace. The base class replaces nothing: it is the plain backend."""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence

from torch import Tensor

from bukva.backends.group import ALONE, Group
from bukva.models.base import Examples, LanguageModel
from bukva.models.gpt import Stack

Update = Callable[[Iterable[Examples]], Tensor]  # micro-batches -> (2,) loss and norm of the gradient


class Backend:
    """The plain backend: models as they are, one process that uses all cores or the GPU, updates step by step."""

    def stack(self, blocks: Stack) -> Stack:
        """Return the module that computes the blocks."""
        return blocks

    @contextlib.contextmanager
    def workers(
        self,
        work: Callable[[Group], None],  # noqa: ARG002 (there are no other processes)
        model: LanguageModel,  # noqa: ARG002
        states: Sequence[Tensor],  # noqa: ARG002
        batch_shape: tuple[int, int],  # noqa: ARG002
    ) -> Iterator[Group]:
        """Yield the group of processes that train the model; the others run `work` while the block runs.

        Args:
            work: what each of the other processes runs, given its group.
            model: the model that is trained.
            states: the optimizer's tensors.
            batch_shape: B windows of T ids.
        """
        yield ALONE

    def prepare_update(self, update: Update, n_updates: int, model: LanguageModel) -> Update:  # noqa: ARG002
        """Return a function that computes the same as `update`, which trains `model` n_updates times."""
        return update
