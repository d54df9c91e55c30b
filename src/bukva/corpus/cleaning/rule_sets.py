"""Choose and load rule sets, which are part of bukva or rule files of the user (docs/text.md describes the format)."""

import functools
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, ValidationError, model_validator

from bukva.core.errors import ParamsError
from bukva.core.files import resolve_existing
from bukva.core.messages import error_message, mistake, one_or_another, shorten
from bukva.core.params import read_any_yaml
from bukva.core.schema import Clean, Section
from bukva.corpus.cleaning.clean import cleaned_works, removed_share
from bukva.corpus.cleaning.removals import Record
from bukva.corpus.cleaning.rules import LINE_ENDS, Cut, DropLines, LineRule, Normalise, RuleSet, Substitute
from bukva.corpus.cleaning.scripts import char_counts, fitting_rules, percent

RULES = Path(__file__).parent / "rules"
# Maximum fraction of a text that `notes` may remove with clean.rules=auto. It removes 0.11 of RusLit.
MOST_REMOVED = 0.15
MOST_RULES = 60  # maximum number of rules in a file, because the report has room for one example of each
ACTIONS = ["drop_lines", "delete", "replace", "normalise", "cut_to", "cut_from"]
CUTS = ["cut_to", "cut_from"]  # one action, which cuts a work at its start and end marks; one of the keys is enough
PUBLISHERS = "publishers"  # the rule set that `literary` and `notes` include
NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
Marks = Annotated[list[str], Field(min_length=1)]
LINE_END = re.compile(r"[\n\r]|\\[nr]")  # a line end, or the escape sequence of one


class Entry(Section):
    """One rule of a rule file, with exactly one of the actions in ACTIONS.

    The action `replace` also needs `by`, the replacement. `cut_to` and `cut_from` list the start and end marks of a
    work (see `Cut`), and together count as one action.
    """

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
        given = [key for key in ACTIONS if getattr(self, key) is not None]
        if not NAME.fullmatch(self.name) or self.name == LINE_ENDS:
            what = (
                "is not a valid rule name; use a letter, followed by up to 39 characters (a-z, 0-9, _), "
                f"but not {LINE_ENDS}"
            )
            raise mistake("name", self.name, what)
        if len(given) != 1 and given != CUTS:
            raise mistake("name", self.name, f"has {len(given)} actions; use one of {one_or_another(ACTIONS)}")
        if (self.by is None) != (self.replace is None):
            raise mistake(
                "by", self.by, "is not valid, because 'replace' and 'by' belong together; use both keys or neither"
            )
        if self.by and LINE_END.search(self.by):
            raise mistake(
                "by", self.by, "contains a line end, but a rule is applied to one line at a time; remove the line end"
            )
        for key, expression in self._expressions(given):
            try:
                if key not in CUTS:
                    self._line_rule().act("")
                elif re.search(expression, ""):
                    raise mistake(
                        key, expression, "matches in every line; use an expression that matches only the marks"
                    )
            except (re.error, IndexError, OverflowError, RecursionError) as error:
                what = f"is not a valid Python regular expression: {error}; correct it (docs/text.md has examples)"
                raise mistake(key, expression, what) from None
        return self

    def _expressions(self, keys: list[str]) -> Iterator[tuple[str, str]]:
        for key in keys:
            value = getattr(self, key)
            yield from ((key, expression) for expression in (value if isinstance(value, list) else [value]))

    def rule(self) -> LineRule | Cut:
        """Convert the entry to a rule."""
        if not (self.cut_to or self.cut_from):
            return self._line_rule()
        starts, ends = (
            tuple(re.compile(mark, re.MULTILINE) for mark in marks or ()) for marks in (self.cut_to, self.cut_from)
        )
        return Cut(self.name, starts, ends)

    def _line_rule(self) -> LineRule:
        if self.drop_lines is not None:
            return DropLines(self.name, re.compile(self.drop_lines))
        if self.normalise is not None:
            return Normalise(self.name, self.normalise)
        return Substitute(self.name, re.compile(self.delete or self.replace or ""), self.by or "")


def read_entries(path: Path, source: str) -> list[Entry]:
    """Read the rules of a rule file, which error messages call `source`.

    Raises:
        BukvaError: the file cannot be read, or rules are not valid. The message has one line for each mistake.
    """
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
            details = error.errors(include_url=False)
            # If a rule is not a mapping, there is no key to name, and the message begins with a colon.
            sentences = (error_message(detail, Entry).removeprefix(": ") for detail in details)
            mistakes += [f"{source}, rule {number}, {what}" for what in sentences]
    for name, times in Counter(entry.name for entry in entries).items():
        if times > 1:
            mistakes.append(f"{source}, rule {name}: {times} rules have this name; use each name once.")
    if mistakes:
        raise ParamsError("\n".join(mistakes))
    return entries


@functools.cache
def rule_set(name: str) -> RuleSet:
    """Return a rule set of bukva, such as "notes"."""
    return _load(Clean(rules=name, file="-"), name)


def chosen_rules(params: Clean, raw: Path) -> tuple[RuleSet, str]:
    """Return the rule set for the collection in the folder `raw`, and the reason as a phrase for the report.

    With `clean.rules=auto`, the rule set is `notes` if the letters of the text fit it (see `fitting_rules`) and `notes`
    removes at most the fraction MOST_REMOVED of the text. Otherwise the rule set is `literary`. The fraction is limited
    because `notes` removes every line that contains a Latin letter, and a line may be a whole paragraph.

    Raises:
        BukvaError: the user's rule file has mistakes.
    """
    name, why = params.rules, f"from {params.file}" if params.rules == "file" else "as clean.rules says"
    if name == "auto":
        counts, publishers = Counter[str](), rule_set(PUBLISHERS)
        for *_, text in cleaned_works(raw, publishers, Record(publishers.rule_names), "clean: counting letters"):
            counts.update(char_counts(text))
        name, fits = fitting_rules(counts)
        if name == "notes" and (removed := removed_share(raw, rule_set("notes"))) > MOST_REMOVED:
            name, fits = "literary", f"notes would remove {percent(removed)} of the text"
        why = f"because {fits} (clean.rules auto)"
    return _load(params, name), why


def _load(params: Clean, name: str) -> RuleSet:
    if name == "file":
        source, file = params.file, resolve_existing(params.file)
        if not file or not file.is_file():
            what = "is not a file; use the path of a rule file, such as rules/example.yaml"
            raise ParamsError(f"params.yaml, clean.file: {shorten(params.file)} {what}.")
    else:
        source, file = f"{name}.yaml", RULES / f"{name}.yaml"
    entries = [] if name == "none" else read_entries(file, source)
    if name in ("literary", "notes"):
        entries = [*read_entries(RULES / f"{PUBLISHERS}.yaml", f"{PUBLISHERS}.yaml"), *entries]
    return assembled(name, source, entries)


def assembled(name: str, source: str, entries: list[Entry]) -> RuleSet:
    """Build a rule set from the rules of the rule file `source`."""
    rules = [entry.rule() for entry in entries]
    cuts = tuple(rule for rule in rules if isinstance(rule, Cut))
    line_rules = tuple(rule for rule in rules if not isinstance(rule, Cut))
    return RuleSet(name, source, line_rules, cuts, once=name == "notes")
