"""Stage clean: works as they were found become works the models read, every removal counted."""

from pathlib import Path

from bukva.cli import stage as cli
from bukva.config.data import author_word
from bukva.config.load import read_params
from bukva.core.files import write_json, write_text
from bukva.core.threads import n_cores
from bukva.corpus.cleaning.clean import clean_collection
from bukva.corpus.cleaning.rule_sets import chosen_rules
from bukva.report.corpus import page
from bukva.report.corpus_figure import draw_corpus
from bukva.text.collection import TABLE, read_table
from bukva.tracking.journal import journal


def main(raw: Path, clean: Path, cleaning: Path, corpus: Path, corpus_figure: Path) -> None:
    """Clean every work by the rules that params.yaml names, and describe the result."""
    params = read_params()
    with journal("clean", params) as log:
        chosen = chosen_rules(params.clean, raw)
        print(f"clean: rules {chosen.rules.name}, {chosen.why}", flush=True)
        counts = clean_collection(raw, clean, chosen, n_cores(params.compute.threads))
        write_json(cleaning, counts)
        table = read_table(clean)
        author = author_word(params.download.corpus)
        write_text(corpus, page(counts, table, author))
        draw_corpus(counts, table, author, corpus_figure)
        log.metrics({key: value for key, value in counts.items() if isinstance(value, int)})
        log.artifact(cleaning)
        log.artifact(corpus)
        log.artifact(corpus_figure)
        log.artifact(clean / TABLE)
        before, after = counts["chars_before"], counts["chars"]  # more after, where works lack their last line end
        print(f"clean: {before:,} characters before, {after:,} after; {counts['symbols']:,} symbols")


if __name__ == "__main__":
    cli.run(main)
