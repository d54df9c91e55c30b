"""Stage download: a corpus, wherever it lies, becomes a collection of works."""

import dataclasses
from pathlib import Path
from typing import Annotated

from typer import Argument

from bukva import cli, progress
from bukva.params import read_params
from bukva.text.corpora import download
from bukva.tracking.journal import journal


def main(
    raw: Annotated[Path, Argument(help="Folder to write: works as category/author/work.txt, documents.csv.")],
) -> None:
    """Fetch or read the corpus that params.yaml names, and write its works and the table of them.

    BUKVA_MIRROR names a folder, or a server's address, to take archives from instead of the network.
    """
    params = read_params()
    with journal("download", params) as log:
        with progress.transfer(f"download {params.download.corpus}") as show:
            report = download(params.download, raw, show, note=print)
        log.metrics(dataclasses.asdict(report))
        log.artifact(raw / "documents.csv")
        print(f"download: {report.works} works by {report.authors} authors, {report.chars:,} characters")


if __name__ == "__main__":
    cli.run(main)
