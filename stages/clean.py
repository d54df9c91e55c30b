"""Stage clean: works as they were found become works the models see, every removal counted."""

from pathlib import Path
from typing import Annotated

from typer import Argument

from bukva import cli
from bukva.files import write_json
from bukva.params import read_params
from bukva.text.cleaning import clean_collection
from bukva.tracking.journal import journal


def main(
    raw: Annotated[Path, Argument(help="Folder of stage download.")],
    clean: Annotated[Path, Argument(help="Folder to write, laid out like the first.")],
    report: Annotated[Path, Argument(help="JSON to write: characters and lines removed by each rule.")],
) -> None:
    """Clean every work by the rules that params.yaml names."""
    params = read_params()
    with journal("clean", params) as log:
        counts = clean_collection(raw, clean, params.clean.rules)
        write_json(report, counts)
        log.metrics({key: value for key, value in counts.items() if isinstance(value, int)})
        log.artifact(report)
        log.artifact(clean / "documents.csv")
        print(f"clean: {counts['chars']:,} of {counts['chars_before']:,} characters stay, {counts['symbols']} symbols")


if __name__ == "__main__":
    cli.run(main)
