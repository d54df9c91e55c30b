"""Stage split: ids become train, val and test."""

from pathlib import Path

import numpy as np

from bukva.base.files import write_json
from bukva.config.load import read_params
from bukva.corpus.collection import read_table
from bukva.corpus.splits import check_lengths, save_splits, sizes, spans_in_ids, summary
from bukva.corpus.strategies import spans
from bukva.stage import cli
from bukva.tracking.journal import journal


def main(tokens: Path, clean: Path, split: Path, split_report: Path) -> None:
    """Divide the characters as params.yaml says."""
    params = read_params()
    with journal("split", params) as log:
        table = read_table(clean)
        shares = spans(table, params.split)
        sums = summary(table, shares)
        n_chars = {name: share["chars"] for name, share in sums.items()}
        in_ids = spans_in_ids(tokens, shares)
        check_lengths(sizes(in_ids), params.model.block_size, "model.block_size")
        check_lengths(sizes(in_ids), params.train_bigram.block_size, "train_bigram.block_size")
        save_splits(split, np.load(tokens / "ids.npy", mmap_mode="r"), in_ids)
        write_json(split_report, sums)
        log.metrics({f"{name}_chars": n for name, n in n_chars.items()})
        log.artifact(split_report)
        print("split: " + ", ".join(f"{name} {n:,}" for name, n in n_chars.items()) + " characters")


if __name__ == "__main__":
    cli.run(main)
