"""The cleaning rule sets by name, and which of them `auto` chooses for a text."""

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from bukva.config.messages import WAY_BACK, one_or_another, shorten
from bukva.config.schema import Clean
from bukva.core.errors import BukvaError
from bukva.core.files import resolve
from bukva.core.progress import counted
from bukva.corpus.cleaning.clean import removed_share
from bukva.corpus.cleaning.notes import NotesRules
from bukva.corpus.cleaning.removals import Chosen, Cleaned, RuleSet
from bukva.corpus.cleaning.rule_files import Entry, line_rules, read_entries
from bukva.corpus.cleaning.scripts import CharCounts, fitting_rules, percent, share
from bukva.text.collection import read_table, read_texts

RULES = Path(__file__).parent / "rules"
MOST_REMOVED = 0.15  # of a text that notes are made for; of RusLit they remove 0.11


@dataclass(frozen=True)
class NoRules:
    """The text as it is, but for its line ends."""

    name = "none"
    rules: tuple[str, ...] = ()
    ends_works = False

    def apply(self, text: str, wanted: Collection[str]) -> Cleaned:  # noqa: ARG002
        """The same text."""
        return Cleaned(text, text.count("\n"), {})


def rule_set(name: str) -> RuleSet:
    """A rule set of bukva by its name, without optional rules."""
    return _load(Clean(rules=name, file="-", optional=[]), name)[0]


def chosen_rules(params: Clean, raw: Path) -> Chosen:
    """The rules that the parameters name; for auto those that fit the whole collection.

    `notes` fit where the letters do (fitting_rules) and where they leave most of the text: they remove a line for one
    Latin letter, and a line may be a paragraph. Where they are named and do not, `why` says so.

    Raises:
        BukvaError: the user's rule file has a mistake, an optional rule is unknown, or a rule would remove most of the
            text.
    """
    if params.rules == "auto":
        counts = _counts(raw)
        name, why = fitting_rules(counts)
        if name == "notes" and (removed := removed_share(raw, NotesRules.load())) > MOST_REMOVED:
            name, why = "literary", f"notes would remove {percent(removed)} of the text"
        rules, entries = _load(params, name)
        why = f"because {why} (clean.rules auto)"
    else:
        counts, why = None, f"from {params.file}" if params.rules == "file" else "as clean.rules says"
        rules, entries = _load(params, params.rules)
        if params.rules == "notes" and (removed := removed_share(raw, rules)) > MOST_REMOVED:
            why += f", but they remove {percent(removed)} of the text, and auto takes literary"
    if passages := [entry for entry in entries if entry.drop_passages]:
        letters = (counts or _counts(raw)).letters()
        for entry in passages:
            _check_passages(entry, share(letters, str(entry.drop_passages)))
    return Chosen(rules, why)


def _load(params: Clean, name: str) -> tuple[RuleSet, list[Entry]]:
    """A rule set with the optional rules that are wanted, and its entries if it is a list of rules."""
    entries, source = _read(params, name)
    optional = [entry.name for entry in entries if entry.optional]
    for wanted in params.optional:
        if wanted not in optional:
            what = f"{shorten(wanted)} is not an optional rule of {source}"
            which = f"use {one_or_another(optional)}" if optional else "it has none; use []"
            raise BukvaError(f"params.yaml, clean.optional: {what}; {which}.\n{WAY_BACK}")
    active = [entry for entry in entries if not entry.optional or entry.name in params.optional]
    match name:
        case "notes":
            return NotesRules.load(), []
        case "none":
            return NoRules(), []
    return line_rules(name, source, active), active


def _read(params: Clean, name: str) -> tuple[list[Entry], str]:
    """The entries of a rule set that is a list of rules, and its name in errors."""
    match name:
        case "notes" | "none":
            return [], f"rules {name}"
        case "file":
            return read_entries(_own_file(params.file), params.file), params.file
    return read_entries(RULES / f"{name}.yaml", f"{name}.yaml"), f"rules {name}"


def _own_file(path: str) -> Path:
    try:
        file = resolve(path)
        exists = file.is_file()
    except (OSError, RuntimeError) as error:  # the name is too long, or the home of an unknown user
        why = f"cannot be looked up ({getattr(error, 'strerror', None) or error})"
    else:
        if exists:
            return file
        why = "is not a file"
    advice = "use the path of a rule file, such as rules/example.yaml"
    raise BukvaError(f"params.yaml, clean.file: {shorten(path)} {why}; {advice}.\n{WAY_BACK}")


def _counts(raw: Path) -> CharCounts:
    counts, table = CharCounts(), read_table(raw)
    pieces = (piece for _, text in read_texts(raw, table) for piece in text)
    for piece in counted(pieces, "clean: counting letters", int(table["chars"].sum())):
        counts.add(piece)
    return counts


def _check_passages(entry: Entry, part: float) -> None:
    if part >= 0.5:
        script = entry.drop_passages
        raise BukvaError(
            f"rule {entry.name} drops passages in {script}, but {percent(part)} of the letters are {script}; leave it"
            f" out of clean.optional, or of your rule file.\n{WAY_BACK}"
        )
