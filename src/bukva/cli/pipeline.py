"""What `make repro` runs before and after the pipeline."""

import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

from bukva.config.load import read_params
from bukva.core.errors import BukvaError
from bukva.core.files import read_json


def check() -> None:
    """Validate params.yaml and the folder of texts. `make repro` begins with it."""
    from bukva.corpus.sources.entries import check_for_dvc
    from bukva.tracking.experiment import print_uncommitted

    params = read_params()
    check_for_dvc(params.download.path)
    print_uncommitted(params)


def scores(
    with_test: Annotated[bool, typer.Option("--test", help="Show test, too; each look is counted.")] = False,
    everything: Annotated[
        bool, typer.Option("--all", help="Every baseline, and what longer context is worth.")
    ] = False,
) -> None:
    """Print the scores of the last run, and the next command."""
    from rich.console import Console

    from bukva.project.stages import paths
    from bukva.report.terminal import context, headline, table

    file = Path(paths()["score_table"])
    if not file.is_file():
        raise BukvaError(f"{file}: is missing, because no run has written it; run `make repro`.")
    found = read_json(file)
    seen = _count_look(Path(paths()["scores"])) if with_test else 0
    console = Console(highlight=False)
    console.print(table(found, with_test=with_test, everything=everything))
    for sentence in [headline(found), *([context(found)] if everything else [])]:
        console.print(sentence, soft_wrap=True)
    if with_test:
        print(f"Looks at scores on this test text so far: {seen}", file=sys.stderr)
    console.print("\nLook at the losses of both models: bukva ui", soft_wrap=True)
    if _lock_is_new():
        console.print(
            "\ndvc.lock differs from the last commit. Experiments are compared with that commit; next:", soft_wrap=True
        )
        console.print('git commit -am "Baseline on this machine"', soft_wrap=True)


def _count_look(characters: Path) -> int:
    """Count a look at the test scores of the last run.

    Raises:
        BukvaError: it has no test scores.
    """
    from bukva.compare import looks
    from bukva.text.scores import ABOUT

    texts = read_json(characters / ABOUT)["text"] if characters.is_dir() else {}
    if "test" not in texts:
        raise BukvaError(f"{characters}: has no scores on test; run `dvc repro evaluate`, with split.test above 0.")
    return looks.count_look(texts["test"])


def _lock_is_new() -> bool:
    """Whether dvc.lock differs from that of the last commit, or is not committed."""
    status = subprocess.run(["git", "status", "--porcelain", "--", "dvc.lock"], capture_output=True)
    return bool(status.stdout)
