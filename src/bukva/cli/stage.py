"""How stages and commands are started: parameters, paths and journal of a stage, mistakes as one sentence."""

import contextlib
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from bukva.config.load import read_params
from bukva.config.schema import Params
from bukva.core.errors import BukvaError, ParamsError, sentence_for
from bukva.core.processes import end_with_dvc
from bukva.project.baseline import WAY_BACK, way_back
from bukva.project.stages import paths
from bukva.tracking.journal import JournalWriter, journal

STYLE: dict[str, Any] = {"add_completion": False, "pretty_exceptions_enable": False, "rich_markup_mode": None}


@dataclass(frozen=True)
class Run:
    """A stage that runs: all of params.yaml, its journal, and the paths of dvc.yaml by their names."""

    params: Params
    log: JournalWriter

    def path(self, name: str) -> Path:
        """A path of dvc.yaml."""
        return Path(paths()[name])


@contextlib.contextmanager
def opened(name: str) -> Iterator[Run]:
    """Read params.yaml, all of it, and keep the journal of a stage while the block runs."""
    params = read_params()
    with journal(name, params) as log:
        yield Run(params, log)


def run(main: Callable[[], None]) -> None:
    """Call the `main` of a stage; its docstring makes --help."""
    app = typer.Typer(**STYLE)
    app.command()(main)
    end_with_dvc()
    call(app)


def call(app: Callable[[], object]) -> None:
    """Run an application.

    Exit status: 0; 1 after a mistake, a full disk or too little memory, with a sentence; 75 when another machine was
    lost; 2 for a wrong command line; 130 after Ctrl-C.
    """
    try:
        app()
    except Exception as error:
        sentence = sentence_for(error)
        if not sentence:
            raise
        print(sentence, file=sys.stderr)
        if isinstance(error, ParamsError) and (command := way_back()):
            print(f"{WAY_BACK}{command}", file=sys.stderr)
        sys.exit(error.exit_status if isinstance(error, BukvaError) else BukvaError.exit_status)
