"""Files of cleaning rules: read, validated to the last regular expression, and turned into rules.

docs/text.md describes them for users.
"""

import re
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError, model_validator

from bukva.config.load import read_yaml
from bukva.config.messages import WAY_BACK, mistake, one_or_another, sentence, shorten
from bukva.config.schema import Section
from bukva.core.errors import BukvaError
from bukva.corpus.cleaning.line_rules import DropLines, LineRule, LineRules, Normalise, PassageIn, Substitute
from bukva.corpus.cleaning.scripts import is_script

MOST_RULES = 60  # the report has an example of each
ACTIONS = ("drop_lines", "delete", "replace", "normalise", "drop_passages")
EXPRESSIONS = ("drop_lines", "delete", "replace")
NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
LINE_END = re.compile(r"[\n\r]|(?<!\\)(?:\\\\)*\\[nr]")  # as it is, or written with a backslash
OURS = "line_ends"  # the name under which line ends are counted


class Entry(Section):
    """One rule of a file: a name, exactly one action, and why it is there."""

    name: str
    reason: str = ""
    optional: bool = False  # applied only if clean.optional names it
    drop_lines: str | None = None
    delete: str | None = None
    replace: str | None = None
    by: str | None = None
    normalise: Literal["NFC", "NFKC"] | None = None
    drop_passages: str | None = None

    @model_validator(mode="after")
    def _name_is_a_word(self) -> "Entry":
        if not NAME.fullmatch(self.name):
            raise mistake("name", self.name, "is not a name; use up to 40 of a-z, 0-9 and _, a letter first")
        if self.name == OURS:
            raise mistake("name", self.name, "is the name of what bukva itself does to line ends; use another")
        return self

    @model_validator(mode="after")
    def _one_action(self) -> "Entry":
        given = [key for key in ACTIONS if getattr(self, key) is not None]
        if len(given) != 1:
            raise mistake("name", self.name, f"has {len(given)} actions; use one of {one_or_another([*ACTIONS])}")
        if (self.by is None) != (self.replace is None):
            raise mistake("by", self.by, "goes with replace, and replace with by; use both or neither")
        return self

    @model_validator(mode="after")
    def _expressions_are_valid(self) -> "Entry":
        for key in EXPRESSIONS:
            if (expression := getattr(self, key)) is not None:
                _check(key, expression, lambda text=expression: _compiled(text))
        if self.replace is not None and self.by is not None:
            pattern, template = _compiled(self.replace), self.by
            _check("by", template, lambda: pattern.sub(template, ""))
            if LINE_END.search(template):
                raise mistake("by", template, "contains a line end, but rules see one line at a time; remove it")
        return self

    @model_validator(mode="after")
    def _script_is_known(self) -> "Entry":
        if self.drop_passages is not None and not is_script(self.drop_passages):
            what = "is not a script of Unicode; use Latin, Cyrillic, Greek, Han or another"
            raise mistake("drop_passages", self.drop_passages, what)
        return self

    def rule(self) -> LineRule:
        """The rule that does this."""
        if self.drop_lines is not None:
            return DropLines(self.name, _compiled(self.drop_lines).search)
        if self.normalise is not None:
            return Normalise(self.name, self.normalise)
        if self.drop_passages is not None:
            return DropLines(self.name, PassageIn(self.drop_passages))
        return Substitute(self.name, _compiled(self.delete or self.replace or ""), self.by or "")


def read_entries(path: Path, source: str) -> list[Entry]:
    """The rules of a file.

    Args:
        path: of the file, which exists.
        source: the file as errors name it.

    Raises:
        BukvaError: the file is not readable, or one sentence for each mistake in its rules.
    """
    raw = read_yaml(path)
    rules = raw.get("rules")
    if set(raw) != {"rules"} or not isinstance(rules, list) or not 0 < len(rules) <= MOST_RULES:
        what = f"use one key, rules, with a list of 1 to {MOST_RULES} rules (rules/example.yaml is an example)"
        raise BukvaError(f"{source}: has keys {shorten(list(raw))}; {what}.\n{WAY_BACK}")
    mistakes: list[str] = []
    entries: list[Entry] = []
    for number, rule in enumerate(rules, start=1):
        try:
            entries.append(Entry.model_validate(rule))
        except ValidationError as error:
            where = f"{source}, rule {number}{_name_of(rule)}"
            mistakes += [f"{where}, {_sentence(details)}" for details in error.errors(include_url=False)]
    mistakes += [f"{source}, {what}" for what in _repeated(entries)]
    if mistakes:
        raise BukvaError("\n".join([*mistakes, WAY_BACK]))
    return entries


def line_rules(name: str, source: str, entries: list[Entry]) -> LineRules:
    """The rule set of these rules."""
    return LineRules(name, source, tuple(entry.rule() for entry in entries))


def _compiled(expression: str) -> re.Pattern[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # what another version of Python may read in another way
        return re.compile(expression)


def _check(key: str, value: str, compile_it: Any) -> None:
    try:
        compile_it()
    except (re.error, IndexError, OverflowError, RecursionError, Warning) as error:
        what = f"is not a regular expression of Python: {error}; correct it (docs/text.md has examples)"
        raise mistake(key, value, what) from None


def _repeated(entries: list[Entry]) -> Iterator[str]:
    for name, times in Counter(entry.name for entry in entries).items():
        if times > 1:
            yield f"rule {name}: {times} rules have this name; use each name once."
    actions = Counter(
        (key, value) for entry in entries for key in ACTIONS if (value := getattr(entry, key)) is not None
    )
    for (key, value), times in actions.items():
        if times > 1:
            yield f"{key}: {shorten(value)} is in {times} rules; keep one of them."


def _name_of(rule: object) -> str:
    name = rule.get("name") if isinstance(rule, dict) else None
    return f" ({name})" if isinstance(name, str) and NAME.fullmatch(name) else ""


def _sentence(details: Any) -> str:
    match details["type"]:
        case "missing":
            return f"{details['loc'][0]}: missing; give each rule a name."
        case "model_type":
            return f"{shorten(details['input'])} is not a rule; use keys name and one of {one_or_another([*ACTIONS])}."
    return sentence(details, Entry)
