"""Clean a text, and return what each rule removed."""

from bukva.corpus.cleaning.rules import Record, RuleSet

NOTHING = (0, 0, 0)


def clean(text: str, rules: RuleSet) -> tuple[str, dict[str, tuple[int, int, int]]]:
    """Return the cleaned text, and the characters, lines and places that each rule removed, by name of the rule."""
    record = Record(rules.rule_names)
    cleaned = rules.clean(text, record)
    return cleaned, {one["rule"]: (one["chars"], one["lines"], one["places"]) for one in record.removed()}
