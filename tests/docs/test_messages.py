"""Every command that a message of the source recommends is one that bukva, DVC or make takes as it stands."""

import ast
import re
import shlex
from contextlib import suppress

import pytest
import typer
from docs.test_commands import parse

from tests.support.imports import ROOT, modules

COMMAND = r"(?:bukva|dvc|make) [a-z][^`\n]*"
RECOMMENDED = re.compile(rf"`({COMMAND})`|\A({COMMAND})(?<![.)])\Z|(?:run|use|:) ({COMMAND}?)(?:[.;,):]+(?: |\Z)|\Z)")
NAME = re.compile(r"[a-z][a-z-]*")


def messages(source):
    """The strings of a module, with 1 in place of each value of an f-string."""
    tree = ast.parse(source)
    parts = {part for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "1" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in parts:
            yield node.value


def commands():
    """One test for each command of each module."""
    for name, file in modules().items():
        for message in messages(file.read_text(encoding="utf-8")):
            for groups in RECOMMENDED.findall(message):
                for command in filter(None, next(filter(None, groups)).split(" && ")):
                    yield pytest.param(command.strip(), id=f"{name}: {command.strip()}")


@pytest.mark.parametrize("command", [*commands()])
def test_a_command_of_a_message_is_taken(command):
    program, *arguments = shlex.split(re.sub(r"\$\(.*\)", "", command))
    if program == "make":
        assert re.search(rf"^{arguments[0]}:", (ROOT / "Makefile").read_text(), re.MULTILINE)
    elif all(map(NAME.fullmatch, arguments)):  # a sentence about a command, which leaves out arguments
        with suppress(SystemExit, typer.Exit):  # of --help; a wrong command raises another error
            parse(f"{command} --help")
    else:
        parse(command)
