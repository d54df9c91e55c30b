"""Stage download: a corpus, from a folder or the network, becomes a collection of works."""

from bukva.cli import stage
from bukva.config.schema import author_word
from bukva.core.progress import transfer
from bukva.corpus.sources.download import download
from bukva.text.collection import TABLE


def main() -> None:
    """Fetch or read the corpus that params.yaml names, and write its works and the table of them.

    BUKVA_MIRROR names a folder to take archives from instead of the network.
    """
    with stage.opened("download") as run:
        chosen, raw = run.params.download, run.path("raw")
        with transfer(f"download {chosen.corpus}") as show:
            found = download(chosen, raw, show, note=print)
        authors = f"{author_word(chosen.corpus)}s"
        run.log.metrics({authors if name == "authors" else name: n for name, n in found.items()})
        run.log.artifact(raw / TABLE)
        print(f"download: {found['works']} works of {found['authors']} {authors}, {found['chars']:,} characters")


if __name__ == "__main__":
    stage.run(main)
