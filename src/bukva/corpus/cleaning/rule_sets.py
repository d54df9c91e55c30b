"""Choose and load rule sets, which are part of bukva or rule files of the user (docs/text.md describes the format)."""

import functools
import re
from collections import Counter
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, model_validator

from bukva.core.errors import ParamsError
from bukva.core.files import resolve_existing
from bukva.core.messages import error_message, mistake, one_or_another, shorten
from bukva.core.params import read_any_yaml
from bukva.core.schema import Clean, Section
from bukva.corpus.cleaning.clean import (
    TooMuchRemovedError,
    char_counts,
    clean_collection,
    cleaned_works,
    letters_by_script,
    percent,
)
from bukva.corpus.cleaning.rules import LINE_ENDS, Cut, LineRule, Record, RuleSet, normalisation, removal, substitution

RULES = Path(__file__).parent / "rules"
MOST_REMOVED = 0.15  # maximum fraction of a text that `notes` may remove with clean.rules=auto (0.11 of RusLit)
AUTO = "(clean.rules auto)"  # ends the reason for a rule set that was not chosen by the user
MOST_RULES = 60  # maximum number of rules in a file, because the report has room for one example of each
ACTIONS = ["drop_lines", "delete", "replace", "normalise", "cut_to", "cut_from"]
CUTS = ["cut_to", "cut_from"]  # start and end marks of a work (see `Cut`); both keys together count as one action
PUBLISHERS = "publishers"  # the rule set that `literary` and `notes` include
NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
Marks = Annotated[list[str], Field(min_length=1)]
LINE_END = re.compile(r"[\n\r]|\\[nr]")  # a line end, or the escape sequence of one
RUSSIAN = frozenset("абвгдеёжзийклмнопрстуфхцчшщъыьэюяАБВГДЕЁЖЗИЙКЛМНОПРСТУФХЦЧШЩЪЫЬЭЮЯ")
MOSTLY_CYRILLIC = 0.9  # minimum fraction of Cyrillic among all letters; the other letters are assumed to be quotations
MOSTLY_RUSSIAN = 0.99  # minimum fraction of Russian among the Cyrillic letters; Ukrainian and old Russian have less


class Entry(Section):
    """One rule of a rule file, with exactly one of the actions in ACTIONS. The action `replace` also needs `by`."""

    name: str = ""
    reason: str = ""
    drop_lines: str | None = None
    delete: str | None = None
    replace: str | None = None
    by: str | None = None
    normalise: Literal["NFC", "NFKC"] | None = None
    cut_to: Marks | None = None
    cut_from: Marks | None = None

    @model_validator(mode="after")
    def _is_one_rule(self) -> "Entry":
        given = {key: value for key in ACTIONS if (value := getattr(self, key)) is not None}
        if not NAME.fullmatch(self.name) or self.name == LINE_ENDS:
            use = f"use a letter, followed by up to 39 characters (a-z, 0-9, _), but not {LINE_ENDS}"
            raise mistake("name", self.name, f"is not a valid rule name; {use}")
        if len(given) != 1 and [*given] != CUTS:
            raise mistake("name", self.name, f"has {len(given)} actions; use one of {one_or_another(ACTIONS)}")
        if (self.by is None) != (self.replace is None):
            why = "because 'replace' and 'by' belong together; use both keys or neither"
            raise mistake("by", self.by, f"is not valid, {why}")
        if self.by and LINE_END.search(self.by):
            why = "but a rule is applied to one line at a time; remove the line end"
            raise mistake("by", self.by, f"contains a line end, {why}")
        expressions = [(key, one) for key, value in given.items() for one in (value if key in CUTS else [value])]
        for key, expression in expressions:
            try:
                if key not in CUTS:
                    self._line_rule().act("")
                elif re.search(expression, ""):
                    what = "matches in every line; use an expression that matches only the marks"
                    raise mistake(key, expression, what)
            except (re.error, IndexError, OverflowError, RecursionError) as error:
                what = f"is not a valid Python regular expression: {error}; correct it (docs/text.md has examples)"
                raise mistake(key, expression, what) from None
        return self

    def rule(self) -> LineRule | Cut:
        """Convert the entry to a rule."""
        if not (self.cut_to or self.cut_from):
            return self._line_rule()
        marks = (self.cut_to or (), self.cut_from or ())
        return Cut(self.name, *(tuple(re.compile(mark, re.MULTILINE) for mark in of_kind) for of_kind in marks))

    def _line_rule(self) -> LineRule:
        if self.drop_lines is not None:
            return removal(self.name, re.compile(self.drop_lines))
        if self.normalise is not None:
            return normalisation(self.name, self.normalise)
        return substitution(self.name, re.compile(self.delete or self.replace or ""), self.by or "")


def read_entries(path: Path, source: str) -> list[Entry]:
    """Read the rules of a rule file, which messages call `source`. The error has one line for each invalid rule."""
    raw = read_any_yaml(path)
    rules = raw.get("rules") if isinstance(raw, dict) and len(raw) == 1 else None
    if not isinstance(rules, list) or not 0 < len(rules) <= MOST_RULES:
        keys = f"keys {shorten(list(raw))}" if isinstance(raw, dict) else "no keys"
        use = f"write one key, `rules`, with a list of 1 to {MOST_RULES} rules, as in rules/example.yaml"
        raise ParamsError(f"{source}: is not a rule file ({keys}); {use}.")
    mistakes: list[str] = []
    entries: list[Entry] = []
    for number, rule in enumerate(rules, start=1):
        try:
            entries.append(Entry.model_validate(rule))
        except ValidationError as error:
            for detail in error.errors(include_url=False):
                # If a rule is not a mapping, there is no key to name, and the message begins with a colon.
                mistakes.append(f"{source}, rule {number}, {error_message(detail, Entry).removeprefix(': ')}")
    for name, times in Counter(entry.name for entry in entries).items():
        if times > 1:
            mistakes.append(f"{source}, rule {name}: {times} rules have this name; use each name once.")
    if mistakes:
        raise ParamsError("\n".join(mistakes))
    return entries


def assembled(name: str, source: str, entries: list[Entry]) -> RuleSet:
    """Build a rule set from the rules of the rule file `source`."""
    rules = [entry.rule() for entry in entries]
    cuts = tuple(rule for rule in rules if isinstance(rule, Cut))
    line_rules = tuple(rule for rule in rules if not isinstance(rule, Cut))
    return RuleSet(name, source, line_rules, cuts, once=name == "notes")


@functools.cache
def rule_set(name: str) -> RuleSet:
    """Return a rule set of bukva, such as "notes"."""
    parts = {"none": [], "literary": [PUBLISHERS, "literary"], "notes": [PUBLISHERS, "notes"]}.get(name, [name])
    files = [f"{part}.yaml" for part in parts]
    return assembled(name, f"{name}.yaml", [entry for file in files for entry in read_entries(RULES / file, file)])


def clean_by(params: Clean, raw: Path, target: Path) -> tuple[RuleSet, dict[str, Any]]:
    """Clean a collection by the rules that `params` select, and return the rule set and the content of cleaning.json.

    With `clean.rules=auto`, the rule set is `notes` if the letters of the text fit it (see `fitting_rules`) and `notes`
    removes at most the fraction MOST_REMOVED of the text. Otherwise the rule set is `literary`. The fraction is limited
    because `notes` removes every line that contains a Latin letter, and a line may be a whole paragraph.
    """
    rules, why = chosen_rules(params, raw)
    is_guessed = params.rules == "auto" and rules.name == "notes"
    try:
        return rules, clean_collection(raw, target, rules, why, MOST_REMOVED if is_guessed else 1)
    except TooMuchRemovedError as error:
        rules, why = rule_set("literary"), f"because notes would remove {percent(error.args[0])} of the text {AUTO}"
        return rules, clean_collection(raw, target, rules, why)


def chosen_rules(params: Clean, raw: Path) -> tuple[RuleSet, str]:
    """Return a rule set for the collection in the folder `raw`, and the reason as a phrase for the report."""
    if params.rules == "file":
        file = resolve_existing(params.file)
        if not file or not file.is_file():
            what = "is not a file; use the path of a rule file, such as rules/example.yaml"
            raise ParamsError(f"params.yaml, clean.file: {shorten(params.file)} {what}.")
        return assembled("file", params.file, read_entries(file, params.file)), f"from {params.file}"
    if params.rules != "auto":
        return rule_set(params.rules), "as clean.rules says"
    counts, publishers = Counter[str](), rule_set(PUBLISHERS)
    for *_, text in cleaned_works(raw, publishers, Record(publishers.rule_names), "clean: counting letters"):
        counts.update(char_counts(text))
    name, why = fitting_rules(counts)
    return rule_set(name), f"because {why} {AUTO}"


def fitting_rules(counts: Counter[str]) -> tuple[str, str]:
    """Return the name of the rule set that fits a text with these characters, and the reason as a phrase.

    `notes` fits modern Russian: at least 90 % of the letters are Cyrillic, and at least 99 % of the Cyrillic letters
    are in today's Russian alphabet. The second condition is needed because `notes` deletes every line that contains ї,
    a Ukrainian letter, or ѣ, a letter of Russian before 1918. `literary` fits all other texts.
    """
    letters = letters_by_script(counts)
    if not letters:
        return "literary", "the text has no letters"
    cyrillic = letters.get("Cyrillic", 0) / sum(letters.values())
    if cyrillic < MOSTLY_CYRILLIC:
        most, n = next(iter(letters.items()))
        only = "only " if most == "Cyrillic" else ""
        return "literary", f"{only}{percent(n / sum(letters.values()))} of the letters are {most}"
    russian = sum(counts[char] for char in RUSSIAN) / letters["Cyrillic"]
    if russian < MOSTLY_RUSSIAN:
        return "literary", f"only {percent(russian)} of the Cyrillic letters are Russian"
    return "notes", f"{percent(cyrillic)} of the letters are Cyrillic"
