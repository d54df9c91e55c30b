"""How stages and commands are started: arguments from the command line, mistakes as one sentence."""

import sys
from collections.abc import Callable
from typing import Any

import typer

from bukva.ancestry import end_with_dvc
from bukva.errors import told

STYLE: dict[str, Any] = {"add_completion": False, "pretty_exceptions_enable": False, "rich_markup_mode": None}


def run(main: Callable[..., None]) -> None:
    """Call `main` with the command line's arguments; its annotations and docstring make --help."""
    app = typer.Typer(**STYLE)
    app.command()(main)
    end_with_dvc()
    call(app)


def call(app: typer.Typer) -> None:
    """Run an application.

    Exit status: 0; 1 after a mistake, a full disk or memory, told in a sentence; 2 for a wrong command line; 130
    after Ctrl-C.
    """
    try:
        app()
    except Exception as error:
        sentence = told(error)
        if not sentence:
            raise
        print(sentence, file=sys.stderr)
        sys.exit(1)
