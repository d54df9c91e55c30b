"""What `make repro` runs before and after the pipeline."""

import subprocess
from pathlib import Path

from bukva.base.files import read_json
from bukva.config.load import read_params


def check() -> None:
    """Validate params.yaml and the folder of texts. `make repro` begins with it."""
    from bukva.corpus.sources.entries import check_for_dvc
    from bukva.tracking.experiment import print_uncommitted

    params = read_params()
    check_for_dvc(params.download.path)
    print_uncommitted(params)


def scores() -> None:
    """Print the scores of the last run, and the next command."""
    from rich.console import Console

    from bukva.pipeline.stages import paths
    from bukva.report.terminal import against_counting, best_baseline, table, verdict
    from bukva.scoring.characters import CharScores, files_of

    values, characters = read_json(Path(paths()["score_table"])), Path(paths()["scores"])
    console = Console(highlight=False)
    console.print(table(values))
    for sentence in (verdict(values), *best_baseline(values)):
        console.print(sentence, soft_wrap=True)
    if characters.is_dir():
        for sentence in against_counting(values, CharScores.read(files_of(characters))):
            console.print(sentence, soft_wrap=True)
    console.print("\nLook at the losses of both models: bukva ui", soft_wrap=True)
    if _lock_is_new():
        console.print(
            "\ndvc.lock differs from the last commit. Experiments are compared with that commit; next:", soft_wrap=True
        )
        console.print('git commit -am "Baseline on this machine"', soft_wrap=True)


def _lock_is_new() -> bool:
    """Whether dvc.lock differs from that of the last commit, or is not committed."""
    status = subprocess.run(["git", "status", "--porcelain", "--", "dvc.lock"], capture_output=True)
    return bool(status.stdout)
