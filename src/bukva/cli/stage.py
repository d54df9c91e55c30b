"""How stages and commands are started: arguments from the command line, mistakes as one sentence."""

import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from bukva.cli.arguments import help_of
from bukva.cli.completion import leave_note
from bukva.core.errors import BukvaError, sentence_for
from bukva.core.processes import end_with_dvc

STYLE: dict[str, Any] = {"add_completion": False, "pretty_exceptions_enable": False, "rich_markup_mode": None}


def run(main: Callable[..., None]) -> None:
    """Call the `main` of a stage with the paths of the command line; its docstring makes --help."""
    app = typer.Typer(**STYLE)
    app.command()(_with_help(main))
    end_with_dvc()
    leave_note()
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
        sys.exit(error.exit_status if isinstance(error, BukvaError) else BukvaError.exit_status)


def _with_help(main: Callable[..., None]) -> Callable[..., None]:
    """The function with the help of bukva.cli.arguments for each of its paths."""
    main.__annotations__ |= {
        name: Annotated[Path, typer.Argument(help=help_of(name))] for name in inspect.signature(main).parameters
    }
    return main
