"""Stage split: write the ids of the splits train, val and test, and a report about each split."""

import numpy as np

from bukva.core.files import write_json
from bukva.corpus.split_report import findings, missed_shares, report, short_ends
from bukva.text.collection import read_table
from bukva.text.ids import check_lengths, read_shares, save_splits
from stages import stage


def main() -> None:
    with stage.opened("split") as run:
        params, tokens, clean = run.params, run.path("tokens"), run.path("clean")
        table, shares = read_table(clean), read_shares(tokens)
        n_ids = dict(shares.groupby("split", sort=False)["ids"].sum())
        check_lengths(n_ids, params.model.block_size, "model.block_size")
        check_lengths(n_ids, params.train_bigram.block_size, "train_bigram.block_size")
        if missed := missed_shares(table, shares, params.split):
            print(f"split: {missed}", flush=True)
        if short := short_ends(shares, params.split):
            print(f"split: {short}", flush=True)
        print("split: looking for text of val and test that also occurs in train", flush=True)
        split_report = report(clean, table, shares)
        n_chars = {name: part["chars"] for name, part in split_report.items()}
        save_splits(run.path("split"), np.load(tokens / "ids.npy", mmap_mode="r"), shares)
        write_json(run.path("split_report"), split_report)
        for finding in findings(split_report):
            print(f"split: {finding}")
        print("split: " + ", ".join(f"{name} {n:,}" for name, n in n_chars.items()) + " characters")


if __name__ == "__main__":
    stage.run(main)
