"""Start a command-line application, and print expected errors."""

import gc
import sys
import traceback
from collections.abc import Callable
from typing import Any

from bukva.core.errors import BukvaError, ParamsError, message_for, redact_text
from bukva.project.baseline import undo_command
from bukva.project.revisions import UNDO_PREFIX

STYLE: dict[str, Any] = {"add_completion": False, "pretty_exceptions_enable": False, "rich_markup_mode": None}


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
    finally:
        gc.freeze()  # otherwise Python looks for garbage in all imported modules before it ends: 0.3 s with torch
