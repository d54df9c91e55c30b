"""Stage download: download or read the corpus that params.yaml selects, and store its works with a table of them.

If the variable BUKVA_MIRROR is set, archives are read from the folder that it names instead of the network.
"""

from bukva.core.progress import transfer_bar
from bukva.core.schema import author_word
from bukva.core.words import count
from bukva.corpus.sources.download import download
from bukva.corpus.sources.works import check_for_dvc
from stages import stage


def main() -> None:
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
