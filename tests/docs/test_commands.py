"""Every command that README, docs/ and the notebooks show is one that the real command line takes."""

import importlib.util
import re
import shlex

import pytest
import typer
from dvc.cli import DvcParserError
from dvc.cli.parser import get_main_parser
from pages import PAGES, each_page, text
from typer.core import TyperGroup

from bukva.cli.app import app

CODE = re.compile(r"^(?:    |\t)(.*)$|^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`([^`]+)`")
INNER = re.compile(r"\$\(([^)]*)\)")  # $(bukva recipe gpt), as an option
PROGRAMS = "bukva ", "dvc ", "python "  # test_links.py looks for the targets of make
USAGE = typer.BadParameter.__base__


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
    """The whole commands of a page."""
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


@pytest.mark.parametrize(
    "command", ["bukva compare --tset A B", "bukva seeds many", "bukva ui 1 2", "dvc exp rnu", "dvc repro --forse"]
)
def test_a_wrong_command_is_not_taken(command):
    with pytest.raises((USAGE, DvcParserError)):
        parse(command)


def test_the_pages_show_many_commands():
    assert sum(len(commands(text(page))) for page in PAGES) > 50
