"""Read parameters, find paths, record the stage, and print expected errors, for all stage scripts."""

import contextlib
import functools
import gc
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import typer

from bukva.cli.console import STYLE, call
from bukva.core.errors import BukvaError, redact_text
from bukva.core.params import PARAMS, flatten, read_params
from bukva.core.processes import end_with_dvc
from bukva.core.schema import Params
from bukva.project.lock import changes, maker_of, read_lock
from bukva.project.stages import paths, stages
from bukva.tracking.record import recorded


@dataclass(frozen=True)
class Run:
    """A running stage."""

    params: Params

    def path(self, name: str) -> Path:
        """Return the path that has this name in dvc.yaml."""
        return Path(paths()[name])


@contextlib.contextmanager
def opened(name: str) -> Iterator[Run]:
    """Read params.yaml, and record the stage `name`, which runs in the `with` block."""
    params = read_params()
    with recorded(name, params):
        yield Run(params)


def run(main: Callable[[], None]) -> None:
    """Run the function `main` of a stage script. The docstring of the script is the text of `--help`."""

    @functools.wraps(main)
    def guarded() -> None:
        # torch's launcher runs the stage in several processes, and its own check suffices
        stage = "" if "TORCHELASTIC_RUN_ID" in os.environ else os.environ.get("DVC_STAGE", "")
        with _same_params(stage) if stage else contextlib.nullcontext():
            main()

    gc.freeze()  # the imported modules contain no garbage, so they need not be searched for it
    gc.enable()
    app = typer.Typer(**STYLE)
    app.command(help=sys.modules["__main__"].__doc__)(guarded)
    end_with_dvc()
    call(app)


@contextlib.contextmanager
def _same_params(stage: str) -> Iterator[None]:
    """Refuse parameters that differ from those that earlier stages read, or that change in the with block."""
    # DVC records the parameters of a stage after the stage has run, so they could be others than it read
    spec, lock, before = stages()[stage], read_lock(), flatten(read_params().model_dump())
    makers = dict.fromkeys(maker for dep in spec.deps if (maker := maker_of(dep, lock)))
    _refuse(next((change for maker in makers for change in changes(maker, lock, before, {})), ""))
    yield
    now = flatten(read_params().model_dump())
    for key in before:
        if key.partition(".")[0] in spec.sections and now[key] != before[key]:
            _refuse(f"stage {stage} ran with {key}={before[key]}, but {PARAMS} has {now[key]}")


def _refuse(change: str) -> None:
    if change:
        raise BukvaError(
            f"The parameters have changed: {redact_text(change)}. This happens if a second `dvc exp run` starts in the "
            "same checkout, even if DVC refuses to run it. Undo the change and repeat the first command. A training "
            "then resumes. To run experiments at the same time, use `dvc exp run --temp`."
        )
