"""Record the results of README's experiments on one machine: `python -m bench.reference [NAME ...]`.

    docs/reference/reference.json    for each experiment: machine, versions, date, commit, command, seconds of the
                                     stages, scores, and the generated texts that README shows
    docs/reference/README.md         the same data as a page
    docs/reference/comparison.txt    output of `bukva compare` for README's first experiment
    dvc.lock, reports/*.json         outputs of the data stages, whose bytes are the same on every machine

Tests compare the figures in README with these files, not with the results of a user's own run.
"""

import json
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from bench.measure import ROOT, clone, dvc, git, origin, python
from bukva.cli import console
from bukva.core.errors import BukvaError
from bukva.core.files import read_json, write_json, write_text
from bukva.core.progress import duration
from bukva.project.baseline import NAME as BASELINE
from bukva.project.commands import descriptions, options
from bukva.project.stages import paths, trained_models

FOLDER = ROOT / "docs" / "reference"
RECIPES = ("lecture", "ngrams", "ruslit")
TOLERANCE = 0.02  # bits: twice what another seed or another processor changes (reports/noise_floor.json)
DATA = ("reports/cleaning.json", "reports/split.json", "dvc.lock")
COMPARED = "heads"
INTRODUCTION = (
    "# Reference",
    "",
    "This page records the results of README's experiments on one machine: scores, times and generated texts. It is",
    "for users who compare their own results with these results.",
    "",
    "Scores are bits per character of the GPT, with one seed for each experiment. Column train-gpt shows the time of",
    "stage `train-gpt`. Other machines round differently, so the scores of the same experiment on two machines differ",
    "by about as much as the scores of two seeds. `make reference` writes this page and the other files in its folder.",
    "",
)

app = typer.Typer(**console.STYLE)


def settings() -> dict[str, list[str]]:
    """Return the options of `dvc exp run` for each experiment, by name."""
    return {
        BASELINE: [],
        COMPARED: ["-S", "model.n_head=8"],
        "english": ["-S", "download.corpus=tinyshakespeare"],
        **{name: options(name) for name in RECIPES},
    }


@app.command()
def main(
    names: Annotated[list[str] | None, typer.Argument(help="Experiments to run; by default all.")] = None,
) -> None:
    """Run the experiments of README in a clone of the last commit, and write docs/reference.

    The records of all other experiments are kept, each with its commit and date. The exit status is 1 if a score
    differs from its earlier record by more than another seed or processor changes.
    """
    known = settings()
    wanted = names or list(known)
    if unknown := [name for name in wanted if name not in known]:
        raise BukvaError(f"reference: unknown experiment {', '.join(unknown)}. Use {', '.join(known)}.")
    if changed := git("status", "--porcelain", "--untracked-files=no"):
        raise BukvaError(f"reference: files differ from the last commit. Commit them first:\n{changed}")
    here, moved = origin(), list[str]()
    recorded = read_json(FOLDER / "reference.json") if (FOLDER / "reference.json").exists() else {}
    with tempfile.TemporaryDirectory(prefix="bukva-reference-", ignore_cleanup_errors=True) as scratch:
        folder = clone(Path(scratch) / "bukva")
        dvc(folder, "repro", "baselines")
        for file in DATA:
            shutil.copyfile(folder / file, ROOT / file)
        for name in dict.fromkeys([BASELINE, *wanted]):  # every experiment starts from the baseline
            print(f"{name}: {command_of(name, known[name])}", flush=True)
            if name == BASELINE:
                dvc(folder, "repro")
                python(folder, "bukva", "baseline")
            else:
                dvc(folder, "exp", "apply", BASELINE)
                dvc(folder, "exp", "run", "-n", name, *known[name])
            one = here | _record(folder, name, known[name])
            moved += changes(name, recorded.get(name, one)["metrics"]["gpt"], one["metrics"]["gpt"])
            recorded[name] = one
            kept = {each: recorded[each] for each in known if each in recorded}
            write_json(FOLDER / "reference.json", kept)  # after each experiment, in case a later one fails
            write_text(FOLDER / "README.md", page(kept))
        if COMPARED in wanted:
            comparison = python(folder, "bukva", "compare", BASELINE, COMPARED)
            write_text(FOLDER / "comparison.txt", comparison.values["printed"])
    print(f"{FOLDER.relative_to(ROOT)}: {', '.join(kept)}")
    if moved:
        raise BukvaError(f"reference: scores changed by more than {TOLERANCE}. Find out why: {'; '.join(moved)}.")


def changes(name: str, before: Mapping[str, float], now: Mapping[str, float]) -> list[str]:
    """Describe the scores of an experiment that differ from its earlier record by more than TOLERANCE."""
    return [
        f"{name}, {score} {now[score]:.3f}, before {before[score]:.3f}"
        for score in now
        if abs(now[score] - before[score]) > TOLERANCE
    ]


def _record(folder: Path, name: str, options: list[str]) -> dict[str, Any]:
    """Return the record of the experiment that ran last in this clone."""
    given = read_json(folder / paths()["answers"])
    scores = read_json(folder / paths()["score_table"])
    return {
        "command": command_of(name, options),
        "seconds": _seconds(folder),
        "metrics": read_json(folder / paths()["metrics"]),
        "scores": {key: scores[key] for key in scores if key != "chart"} if name == BASELINE else {},
        "samples": [
            {key: answer[key] for key in ("state", "read", "written")}
            for answer in given["answers"]
            if (answer["model"], answer["temperature"]) == (trained_models()["gpt"].label, given["temperature"])
        ],
    }


def _seconds(folder: Path) -> Mapping[str, float]:
    """Return the seconds of the last execution of each stage."""
    seconds = {}
    for file in sorted(folder.glob(".bukva/runs/*/*/run.jsonl"), key=lambda file: file.stat().st_mtime):
        start, end, *_ = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines() if line]
        if not start["restored"]:
            seconds[start["stage"]] = end["seconds"]
    return seconds


def page(recorded: Mapping[str, Any]) -> str:
    """Return docs/reference/README.md: a table of the experiments, and a text generated by each GPT."""
    rows = [
        "| experiment | command | val | test | train-gpt | all stages | commit, date | machine |",
        "|---|---|---|---|---|---|---|---|",
    ]
    texts = []
    for name, one in recorded.items():
        bits, seconds, here = one["metrics"]["gpt"], one["seconds"], one["machine"]
        cells = [
            name, f"`{one['command']}`", f"{bits['val']:.3f}", f"{bits['test']:.3f}", duration(seconds["train-gpt"]),
            duration(sum(seconds.values())), f"{one['commit'][:7]}, {one['date']}",
            f"{here['cores']} cores of {here['cpu']}, {' and '.join(here['bf16']) or 'no bf16'}",
        ]  # fmt: skip
        rows.append(f"| {' | '.join(cells)} |")
        sample = [each for each in one["samples"] if each["state"] == "trained"][-1]
        text = (sample["read"] + sample["written"]).strip("\n")
        texts += [f"{name}:", "", *(f"    {line}" for line in text.splitlines()), ""]
    return "\n".join([*INTRODUCTION, *rows, "", "## How they write", "", *texts])


def command_of(name: str, options: list[str]) -> str:
    """Return the command of an experiment as README prints it."""
    if name in descriptions():
        return f"dvc exp run $(bukva recipe {name})"
    return " ".join(["dvc exp run", *options]) if options else "dvc repro"


if __name__ == "__main__":
    console.call(app)
