"""Stage split: ids become train, val and test."""

from pathlib import Path

import numpy as np

from bukva.cli import stage as cli
from bukva.config.data import author_word
from bukva.config.load import read_params
from bukva.core.files import write_json
from bukva.corpus.splits.report import report, tell_missed_shares
from bukva.report.split_figure import draw_split
from bukva.text.collection import read_table
from bukva.text.splits import check_lengths, read_shares, save_splits, sizes
from bukva.tracking.journal import journal


def main(tokens: Path, clean: Path, split: Path, split_report: Path, split_figure: Path) -> None:
    """Divide the characters as params.yaml says."""
    params = read_params()
    with journal("split", params) as log:
        shares = read_shares(tokens)
        tell_missed_shares(shares, params.split, note=print)
        check_lengths(sizes(shares), params.model.block_size, "model.block_size")
        check_lengths(sizes(shares), params.train_bigram.block_size, "train_bigram.block_size")
        print("split: looking for text of val and test in train", flush=True)
        works = read_table(clean)
        found = report(clean, works, shares, params.split)
        n_chars = {name: part["chars"] for name, part in found.items()}
        save_splits(split, np.load(tokens / "ids.npy", mmap_mode="r"), shares)
        write_json(split_report, found)
        draw_split(found, works, author_word(params.download.corpus), split_figure)
        log.metrics({f"{name}_chars": n for name, n in n_chars.items()})
        log.artifact(split_report)
        log.artifact(split_figure)
        print("split: " + ", ".join(f"{name} {n:,}" for name, n in n_chars.items()) + " characters")


if __name__ == "__main__":
    cli.run(main)
