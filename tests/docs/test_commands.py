"""Every command that README, docs/, the notebooks and messages show is one that the real command line takes."""

import ast
import importlib.util
import re
import shlex
from contextlib import suppress

import pytest
import typer
from dvc.cli.parser import get_main_parser
from pages import each_page
from typer.core import TyperGroup

from bukva.cli.app import app
from tests.support.imports import ROOT, modules

CODE = re.compile(r"^(?:    |\t)(.*)$|^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`([^`]+)`")
INNER = re.compile(r"\$\(([^)]*)\)")  # $(bukva recipe gpt), as an option
PROGRAMS = "bukva ", "dvc ", "python "  # test_links.py looks for the targets of make
COMMAND = r"(?:bukva|dvc|make) [a-z][^`\n]*"
RECOMMENDED = re.compile(rf"`({COMMAND})`|\A({COMMAND})(?<![.)])\Z|(?:run|use|:) ({COMMAND}?)(?:[.;,):]+(?: |\Z)|\Z)")
NAME = re.compile(r"[a-z][a-z-]*")


def lines(page):
    """What a page shows to be typed: indented lines, and those between fences."""
    for indented, fenced in CODE.findall(page.replace("\\\n", " ")):
        yield from (indented or fenced).splitlines()


def parts(line):
    """The commands of a line, without its comment, its prompt and its variables."""
    for command in re.split(r"&&|;", re.sub(r"(^|\s)#.*", "", line).removeprefix("$ ")):
        yield from INNER.findall(command)
        words = INNER.sub("", command).split(" > ")[0].strip()
        words = re.sub(r"^(?:[A-Z_]+=\S* )+", "", words)
        if words.startswith(PROGRAMS):
            yield words


def commands(page):
    return [command for line in lines(page) for command in parts(line)]


def named(page):
    """The commands of bukva and DVC that a sentence names, which may lack arguments."""
    return [command for code in INLINE.findall(page) for command in parts(code)]


def parse(command):
    """Parse a command as its program does, which raises its own error where it does not take it."""
    program, *words = shlex.split(command)
    if program == "dvc":
        get_main_parser().parse_args(words)
    elif program == "python":
        assert words[0] == "-m", command
        assert importlib.util.find_spec(words[1]), command
    elif program == "bukva":
        chosen = typer.main.get_command(app)
        while words and words != ["--help"] and isinstance(chosen, TyperGroup):
            assert words[0] in chosen.commands, command
            chosen, words = chosen.commands[words[0]], words[1:]
        if not isinstance(chosen, TyperGroup):
            chosen.make_context(program, words)


@each_page(commands)
def test_a_command_is_taken(page, item):
    parse(item)


@each_page(named)
def test_a_named_command_exists(page, item):
    """Only the command itself, because a sentence leaves out arguments."""
    names = re.match(r"bukva ([a-z]+)(?: ([a-z]+))?", item)
    commands = typer.main.get_command(app).commands
    assert not names or names[1] in commands, item
    if names and names[2] and isinstance(commands[names[1]], TyperGroup):
        assert names[2] in commands[names[1]].commands, item


# ---- messages


def messages(source):
    """The strings of a module, with 1 in place of each value of an f-string."""
    tree = ast.parse(source)
    parts = {part for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "1" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in parts:
            yield node.value


def recommended():
    for name, file in modules().items():
        for message in messages(file.read_text(encoding="utf-8")):
            for groups in RECOMMENDED.findall(message):
                for command in filter(None, next(filter(None, groups)).split(" && ")):
                    yield pytest.param(command.strip(), id=f"{name}: {command.strip()}")


@pytest.mark.parametrize("command", [*recommended()])
def test_a_command_of_a_message_is_taken(command):
    program, *arguments = shlex.split(re.sub(r"\$\(.*\)", "", command))
    if program == "make":
        assert re.search(rf"^{arguments[0]}:", (ROOT / "Makefile").read_text(), re.MULTILINE)
    elif all(map(NAME.fullmatch, arguments)):  # a sentence about a command, which leaves out arguments
        with suppress(SystemExit, typer.Exit):  # of --help; a wrong command raises another error
            parse(f"{command} --help")
    else:
        parse(command)
