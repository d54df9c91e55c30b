"""Commands beside a run of the pipeline: checks, scores, recipes, a plan for a time; results for MLflow and others."""

import contextlib
import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from bukva.config.load import read_params, read_yaml
from bukva.config.schema import Params
from bukva.core.errors import BukvaError
from bukva.core.files import read_json

NO_RECIPE = "--no-such-recipe"  # an option that DVC lacks


def check() -> None:
    """Validate params.yaml and the folder of texts. `make repro` begins with it."""
    from bukva.corpus.sources.works import check_for_dvc
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
    from bukva.project.stages import paths
    from bukva.report.terminal import context, headline, show, table

    file = Path(paths()["score_table"])
    if not file.is_file():
        raise BukvaError(f"{file}: is missing, because no run has written it; run `make repro`.")
    found, seen = read_json(file), _count_look_at_test(Path(paths()["scores"])) if with_test else 0
    sentences = [headline(found), *([context(found)] if everything else [])]
    shown = table(found, with_test=with_test, everything=everything)
    show("Bits per character (lower is better)", *shown, sentences)
    if with_test:
        print(f"Looks at scores on this test text so far: {seen}", file=sys.stderr)
    complete()
    print("\nLook at the losses of both models: bukva ui")
    if _lock_is_new():
        print("\ndvc.lock differs from the last commit. Experiments are compared with that commit; next:")
        print('git commit -am "Baseline on this machine"')


def recipe(
    name: Annotated[str, typer.Argument(help="A file of recipes/, without .yaml.", show_default=False)] = "",
) -> None:
    """Print a recipe as options: dvc exp run $(bukva recipe NAME). Without a name, list the recipes.

    Further options change it: dvc exp run $(bukva recipe ngrams) -S model.n_head=8. A recipe is a file of a few
    parameters in recipes/.
    """
    from bukva.project.commands import descriptions, options

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
) -> None:
    """Propose size and steps for a time budget. Measures a few updates of several sizes here."""
    started_at = time.perf_counter()  # the imports below are part of the start-up of the stage, too
    from bukva.planning.plan import Planner, climb, command, parse_budget, propose, warnings

    raw, plans = read_yaml(), []
    planner = Planner(raw, parse_budget(budget), started_at)
    for measured in climb(planner.plan):
        print(f"plan: {measured}", flush=True)
        plans.append(measured)
    chosen = propose(plans)
    print(*warnings(chosen), f"Proposed: {chosen}", f"Try it: {command(raw, chosen.values())}", sep="\n")


def sync() -> None:
    """Complete MLflow with what has run here. Safe to repeat."""
    from bukva.tracking.sync import sync as fill

    complete()
    print(fill())


def push() -> None:
    """Send all results to DVC's remote. Another clone then restores them instead of running the stages."""
    from bukva.project.cache import push as send

    print("push: the remote has the results of {} stage executions; {} objects were new to it.".format(*send()))
    print("push: experiments are sent by name: dvc exp push origin NAME")


def publish_experiment(params: Params) -> None:
    """Bring MLflow up to date with this experiment; what is missing there is reported, and never an error."""
    from bukva.tracking.publish import publish

    publish(params, {})


def complete() -> None:
    """Do what stage publish would have done, where DVC has skipped it because its inputs are those of dvc.lock."""
    from bukva.tracking.publish import was_skipped

    with contextlib.suppress(BukvaError, OSError):  # a folder without params.yaml, or with a mistake in it
        params = read_params()
        if was_skipped(params):
            publish_experiment(params)


def _count_look_at_test(characters: Path) -> int:
    """Count a look at the test scores of the last run; raises a BukvaError if it has none."""
    from bukva.compare import records
    from bukva.text.scores import ABOUT

    texts = read_json(characters / ABOUT)["text"] if characters.is_dir() else {}
    if "test" not in texts:
        raise BukvaError(f"{characters}: has no scores on test; run `dvc repro evaluate`, with split.test above 0.")
    return records.count_look_at_test(texts["test"])


def _lock_is_new() -> bool:
    """Whether dvc.lock differs from that of the last commit, or is not committed."""
    from bukva.project.revisions import git

    with contextlib.suppress(BukvaError):  # the scores are shown without git, too
        return bool(git("status", "--porcelain", "--", "dvc.lock"))
    return False
