"""Stage download: download a corpus, or read it from a folder, and store its works."""

from bukva.cli import stage
from bukva.core.progress import transfer_bar
from bukva.core.schema import author_word
from bukva.core.words import count
from bukva.corpus.sources.download import download
from bukva.corpus.sources.works import check_for_dvc


def main() -> None:
    """Download or read the corpus that params.yaml selects. Store its works and a table that lists them.

    If the variable BUKVA_MIRROR is set, archives are read from the folder that it names instead of the network.
    """
    with stage.opened("download") as run:
        chosen, raw = run.params.download, run.path("raw")
        check_for_dvc("download.path", chosen.path)  # DVC reads it again after the stage
        with transfer_bar(f"download {chosen.corpus}") as show:
            counts = download(chosen, raw, show, note=print)
        author = author_word(chosen.corpus)
        words = {"works": "work", "authors": author, "chars": "character"}
        works, authors, chars = (count(counts[name], word) for name, word in words.items())
        print(f"download: {works}{f' of {authors}' if counts['authors'] else ''}, {chars}")


if __name__ == "__main__":
    stage.run(main)
