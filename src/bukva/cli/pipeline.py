"""Commands beside a run of the pipeline: what `make repro` runs before and after it, recipes, and a plan for a time."""

import subprocess
import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from bukva.config.load import read_params, read_yaml
from bukva.core.errors import BukvaError
from bukva.core.files import read_json
from bukva.core.machine import limit_spinning, use_large_pages

NO_RECIPE = "--no-such-recipe"  # an option that DVC lacks


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

    from bukva.cli.publish import complete
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
    complete()
    console.print("\nLook at the losses of both models: bukva ui", soft_wrap=True)
    if _lock_is_new():
        console.print(
            "\ndvc.lock differs from the last commit. Experiments are compared with that commit; next:", soft_wrap=True
        )
        console.print('git commit -am "Baseline on this machine"', soft_wrap=True)


def recipe(
    name: Annotated[str, typer.Argument(help="A file of recipes/, without .yaml.", show_default=False)] = "",
) -> None:
    """Print a recipe as options: dvc exp run $(bukva recipe NAME). Without a name, list the recipes.

    Further options change it: dvc exp run $(bukva recipe ngrams) -S model.n_head=8. A recipe is a file of a few
    parameters in recipes/.
    """
    from bukva.compare.recipes import descriptions, options

    if not name:
        for each, description in descriptions().items():
            print(f"{each:10}{description}")
        return
    try:
        print(*options(name))
    except BukvaError:
        print(NO_RECIPE)  # a shell goes on after a mistake in $(...), and DVC must not run the default
        raise


def plan(
    budget: Annotated[str, typer.Argument(help="How long stage train-gpt may take: 90s, 10min, 1h30min.")],
    write: Annotated[bool, typer.Option("--write", help="Put the proposal into params.yaml.")] = False,
) -> None:
    """Propose size and steps for a time budget. Measures a few updates of several sizes here."""
    started_at = time.perf_counter()  # the imports below are part of the start-up of the stage, too
    limit_spinning()  # as in a stage
    use_large_pages()
    from rich.console import Console

    from bukva.planning import params, show
    from bukva.planning.budget import parse_budget
    from bukva.planning.ladder import climb, propose
    from bukva.planning.measure import Measuring

    seconds = parse_budget(budget)
    measuring = Measuring.of(read_yaml())
    limits = measuring.budget(seconds, started_at)
    plans = []
    for measured in climb(measuring.speed, measuring.params, limits):
        print(show.progress_line(measured), file=sys.stderr, flush=True)
        plans.append(measured)
    chosen = propose(plans)
    changes = list(params.differences(measuring.raw, chosen.values()))
    if write:
        params.write(chosen.values())
    console = Console(highlight=False)
    console.print(show.table(plans, chosen))
    for line in (*show.list_changes(changes), *show.warnings(chosen)):
        console.print(line, soft_wrap=True)
    if write:
        console.print("\nparams.yaml now has these values; train with them: make repro", soft_wrap=True)
    elif changes:
        console.print(f"\nTry them: {show.experiment(changes)}", soft_wrap=True)
        console.print(f"Write them to params.yaml: bukva plan {budget} --write", soft_wrap=True)


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
