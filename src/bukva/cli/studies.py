"""Commands that show the models that were just trained, and all experiments: charts, pages and servers."""

from pathlib import Path
from typing import Annotated

import typer

from bukva.config.load import read_params
from bukva.core.errors import BukvaError
from bukva.core.files import sha256

ATTENTION, COUNTING, PAGE = Path("reports/attention"), Path("reports/counting"), Path("reports/index.html")


def attention() -> None:
    """Draw what attention does in the trained GPT. Charts in reports/attention."""
    from bukva.interpret.study import study
    from bukva.models.device import prepare
    from bukva.models.folder import load_model
    from bukva.project.stages import paths
    from bukva.report.attention import attention_report
    from bukva.text.splits import load_splits

    params, gpt = read_params(), _trained_gpt()
    machine = prepare(params.compute)
    trained, tokenizer = load_model(gpt, "best", machine.device)
    untrained, _ = load_model(gpt, "initial", machine.device)
    print("attention: studying the GPT before and after training, which takes a while", flush=True)
    states = {"untrained": untrained, "trained": trained}
    found = study(states, tokenizer, load_splits(Path(paths()["split"])), params.evaluate, machine)
    attention_report(found, ATTENTION, sha256(gpt / "best.safetensors"))
    print(f"attention: {ATTENTION} has the charts and attention.json")


def counting() -> None:
    """Show what a GPT with n-grams counts and learns. Charts in reports/counting."""
    from bukva.interpret.counting import Counting
    from bukva.models.device import prepare
    from bukva.models.folder import load_model
    from bukva.project.stages import paths
    from bukva.report.counting import counting_report, table
    from bukva.text.splits import load_lengths, load_splits

    params, gpt, split = read_params(), _trained_gpt(), Path(paths()["split"])
    machine = prepare(params.compute)
    trained, tokenizer = load_model(gpt, "best", machine.device)
    study = Counting(trained, tokenizer, load_splits(split), load_lengths(split), machine)
    print("counting: scoring val, and repeating the first updates, which takes a while", flush=True)
    numbers = study.study(params.evaluate, params.train_gpt)
    counting_report(numbers, COUNTING)
    print(*table(numbers), sep="\n")
    print(f"counting: {COUNTING} has the charts and counting.json")


def report() -> None:
    """Write the last run and all experiments as pages. reports/index.html and reports/experiments.html."""
    from bukva.report.page.build import build
    from bukva.tracking.experiment import this_experiment
    from bukva.tracking.journal import note, read_journals, start_sync

    for page in build(PAGE):
        print(f"report: {page} ({page.stat().st_size / 1e6:.1f} MB)")
    params = this_experiment(read_params()).params
    found = [journal for journal in read_journals() if journal.start["params"] == params]
    if found and note(name := found[-1].start["experiment"], {}, {PAGE.name: PAGE.read_bytes()}, found[-1].key):
        start_sync()
        print(f"report: {PAGE} becomes an artifact of the run {name} in MLflow")


def play(port: Annotated[int, typer.Option(help="The port, or the first that is tried.")] = 8050) -> None:
    """Write with the trained models in a browser. Two of them side by side, on a page that `bukva ui` has, too."""
    from bukva.serving.app import serve

    serve("/play", port)


def ui(port: Annotated[int, typer.Option(help="The port, or the first that is tried.")] = 8050) -> None:
    """Serve all experiments, reports, the playground and MLflow. Prints their one address; Ctrl-C ends it."""
    from bukva.cli.pipeline import complete
    from bukva.serving.app import serve

    complete()
    serve(port=port)


def _trained_gpt() -> Path:
    """The folder of the GPT; raises a BukvaError if it is not trained, or the text is not split."""
    from bukva.project.stages import paths, trained_models

    gpt = trained_models()["gpt"].folder
    if not gpt.exists() or not list(Path(paths()["split"]).glob("*.npy")):
        raise BukvaError(f"{gpt}: the GPT is not trained yet; run `dvc repro train-gpt`.")
    return gpt
