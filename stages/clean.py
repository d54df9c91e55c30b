"""Stage clean: clean every work with the rules that params.yaml selects, and report what each rule removes."""

from bukva.core.files import write_json, write_text
from bukva.core.schema import author_word
from bukva.core.words import count
from bukva.corpus.cleaning.clean import percent
from bukva.corpus.cleaning.page import page
from bukva.corpus.cleaning.rule_sets import clean_by
from bukva.text.collection import read_table
from stages import stage

MOST_NAMES = 3  # largest number of works that a printed line names


def main() -> None:
    with stage.opened("clean") as run:
        raw, clean = run.path("raw"), run.path("clean")
        rules, counts = clean_by(run.params.clean, raw, clean)
        print(f"clean: using rule set {rules.name}, {counts['why']}")
        write_json(run.path("cleaning"), counts)
        author = author_word(run.params.download.corpus)
        write_text(run.path("corpus"), page(counts, read_table(clean), author))
        by_rule = sorted(
            ((rule["chars"], rule["rule"]) for rule in counts["removed"] if rule["chars"] > 0), reverse=True
        )
        if by_rule:
            named, removed = ", ".join(f"{name} {n:,}" for n, name in by_rule), sum(n for n, _ in by_rule)
            print(f"clean: removed {count(removed, 'character')} (clean.rules): {named}")
        if cut := counts["mostly_cut"]:
            by, first = ", ".join(rule.name for rule in rules.cuts), [*cut.items()][:MOST_NAMES]
            named = ", ".join(f"{work} {percent(share)}" for work, share in first)
            more = f" and {len(cut) - MOST_NAMES:,} more" if len(cut) > MOST_NAMES else ""
            print(f"clean: {by} removed most of {count(len(cut), 'work')} (clean.rules): {named}{more}")
        # there can be more characters after than before, because a work without a final newline gets one
        before, after = counts["chars_before"], counts["chars"]
        print(
            f"clean: {count(before, 'character')} before cleaning, {after:,} after cleaning "
            f"({count(counts['symbols'], 'different character')})"
        )


if __name__ == "__main__":
    stage.run(main)
