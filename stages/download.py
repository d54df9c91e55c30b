"""Stage download: a corpus, from a folder or the network, becomes a collection of works."""

import dataclasses
from pathlib import Path

from bukva.cli import stage as cli
from bukva.config.data import author_word
from bukva.config.load import read_params
from bukva.core.progress import transfer
from bukva.corpus.sources.download import download
from bukva.text.collection import TABLE
from bukva.tracking.journal import journal


def main(raw: Path) -> None:
    """Fetch or read the corpus that params.yaml names, and write its works and the table of them.

    BUKVA_MIRROR names a folder, or a server's address, to take archives from instead of the network.
    """
    params = read_params()
    with journal("download", params) as log:
        with transfer(f"download {params.download.corpus}") as show:
            found = download(params.download, raw, show, note=print)
        values, authors = dataclasses.asdict(found), f"{author_word(params.download.corpus)}s"
        log.metrics({authors if name == "authors" else name: value for name, value in values.items()})
        log.artifact(raw / TABLE)
        print(f"download: {found.works} works of {found.authors} {authors}, {found.chars:,} characters")


if __name__ == "__main__":
    cli.run(main)
