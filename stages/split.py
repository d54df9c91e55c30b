"""Stage split: ids become train, val and test."""

from pathlib import Path
from typing import Annotated

import numpy as np
from typer import Argument

from bukva import cli
from bukva.files import write_json
from bukva.params import read_params
from bukva.text.documents import read_table
from bukva.text.splitting import refuse_short, report, save_parts, spans
from bukva.tracking.journal import journal


def main(
    tokens: Annotated[Path, Argument(help="Folder of stage tokenize.")],
    clean: Annotated[Path, Argument(help="Folder of stage clean, for the table of works.")],
    split: Annotated[Path, Argument(help="Folder to write: train.npy, val.npy and test.npy.")],
    report_file: Annotated[Path, Argument(help="JSON to write: characters per part, category and author.")],
) -> None:
    """Divide the characters as params.yaml says."""
    params = read_params()
    with journal("split", params) as log:
        table = read_table(clean)
        parts = spans(table["chars"], params.split)
        shares = report(table, parts)
        n_chars = {part: share["chars"] for part, share in shares.items()}
        refuse_short(n_chars, params.model.block_size, "model.block_size")
        refuse_short(n_chars, params.train_bigram.block_size, "train_bigram.block_size")
        save_parts(split, np.load(tokens / "ids.npy", mmap_mode="r"), parts)
        write_json(report_file, shares)
        log.metrics({f"{part}_chars": n for part, n in n_chars.items()})
        log.artifact(report_file)
        print("split: " + ", ".join(f"{part} {n:,}" for part, n in n_chars.items()) + " characters")


if __name__ == "__main__":
    cli.run(main)
