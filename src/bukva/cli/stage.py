"""Start the stage scripts and the command line: read parameters, record stages, and print expected errors."""

import contextlib
import functools
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from bukva.core.errors import BukvaError, ParamsError, message_for, redact_text
from bukva.core.params import PARAMS, flatten, read_params
from bukva.core.processes import end_with_dvc
from bukva.core.schema import Params
from bukva.project.baseline import undo_command
from bukva.project.lock import changes, maker_of, read_lock
from bukva.project.revisions import UNDO_PREFIX
from bukva.project.stages import paths, stages
from bukva.tracking.record import recorded

STYLE: dict[str, Any] = {"add_completion": False, "pretty_exceptions_enable": False, "rich_markup_mode": None}


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
    """Run the function `main` of a stage script, whose docstring is the text of `--help`."""

    @functools.wraps(main)
    def guarded() -> None:
        # torch's launcher runs the stage in several processes, and its own check suffices
        stage = "" if "TORCHELASTIC_RUN_ID" in os.environ else os.environ.get("DVC_STAGE", "")
        with _same_params(stage) if stage else contextlib.nullcontext():
            main()

    app = typer.Typer(**STYLE)
    app.command()(guarded)
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


def call(app: Callable[[], object]) -> None:
    """Run a command-line application. Print expected errors as messages without a traceback.

    The exit status is 0 after success, 1 after a mistake in the input, a full disk or too little memory, 2 after a
    wrong command line, 75 if another machine of a training is lost, and 130 after Ctrl-C.
    """
    try:
        app()
    except Exception as error:
        print(message_for(error) or redact_text(traceback.format_exc()), file=sys.stderr)
        if isinstance(error, ParamsError) and (command := undo_command()):
            print(f"{UNDO_PREFIX}{command}", file=sys.stderr)
        sys.exit(error.exit_status if isinstance(error, BukvaError) else BukvaError.exit_status)
