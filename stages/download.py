"""Stage download: download a corpus, or read it from a folder, and store its works."""

from bukva.cli import stage
from bukva.config.schema import author_word
from bukva.core.progress import transfer_bar
from bukva.corpus.sources.download import download
from bukva.text.collection import TABLE


def main() -> None:
    """Download or read the corpus that params.yaml selects. Store its works and a table that lists them.

    If the variable BUKVA_MIRROR is set, archives are read from the folder that it names instead of the network.
    """
    with stage.opened("download") as run:
        chosen, raw = run.params.download, run.path("raw")
        with transfer_bar(f"download {chosen.corpus}") as show:
            counts = download(chosen, raw, show, note=print)
        authors = f"{author_word(chosen.corpus)}s"
        run.log.metrics({authors if name == "authors" else name: n for name, n in counts.items()})
        run.log.artifact(raw / TABLE)
        print(f"download: {counts['works']} works of {counts['authors']} {authors}, {counts['chars']:,} characters")


if __name__ == "__main__":
    stage.run(main)
