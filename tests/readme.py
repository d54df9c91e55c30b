"""Run README as a program: its commands in order, each with the output that README shows."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tests.support.imports import ROOT

README = ROOT / "README.md"
# other numerics give other numbers, and may give another verdict: of a line with one, only this much is the same
VERDICT = re.compile(r"settings \S+ against \w+|^On this val text, model \S+")


@dataclass(frozen=True)
class Step:
    """A command of README under its heading, and the lines that README shows below it."""

    heading: str
    command: str
    shown: tuple[str, ...]


def steps() -> Iterator[Step]:
    """Yield the commands of README in order; a line that begins with `$ ` is followed by what it prints."""
    heading, block = "", list[str]()
    text = re.sub(r" \\\n\s+", " ", README.read_text(encoding="utf-8"))
    for line in [*text.splitlines(), ""]:
        if line.startswith("    "):
            block.append(line[4:])
            continue
        yield from _steps(heading, block)
        block = []
        heading = line.removeprefix("## ") if line.startswith("## ") else heading


def _steps(heading: str, block: list[str]) -> Iterator[Step]:
    has_prompts = any(line.startswith("$ ") for line in block)
    for place, line in enumerate(block):
        if has_prompts and not line.startswith("$ "):
            continue
        command = re.sub(r"\s+#.*", "", line.removeprefix("$ ")).strip()
        if not re.match(r"(?:make|dvc|bukva|git|\.) ", command):
            continue  # a sample of a model
        shown = []
        for following in block[place + 1 :] if has_prompts else ():
            if following.startswith("$ "):
                break
            shown.append(following)
        yield Step(heading, command, tuple(filter(None, shown)))


def pattern(line: str) -> str:
    """Return a regular expression for lines of this kind: with other numbers, another verdict, any text for `...`."""
    if verdict := VERDICT.search(line):
        return re.escape(verdict[0])
    return re.sub(r"\d+", r"\\d+", re.escape(line)).replace(r"\.\.\.", ".*")


def walk(chosen: list[Step], run: Callable[[str], str]) -> None:
    """Run commands and check what they print; the name that DVC gives to an experiment replaces that in README."""
    renamed: dict[str, str] = {}
    for step in chosen:
        command, shown = step.command, list(step.shown)
        for ours, theirs in renamed.items():
            command, shown = command.replace(ours, theirs), [line.replace(ours, theirs) for line in shown]
        printed = run(command)
        print(f"$ {command}", printed, sep="\n", flush=True)
        names = re.search(r"Ran experiment\(s\): (\S+)", printed), re.search(r"experiment '(\S+)'", "\n".join(shown))
        if all(names):
            renamed[names[1][1]] = names[0][1]
            shown = [line.replace(names[1][1], names[0][1]) for line in shown]
        for line in shown:
            if line != "...":
                assert re.search(pattern(line), printed, re.MULTILINE), f"{command}: {line!r} is not in\n{printed}"
