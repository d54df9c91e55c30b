"""The rows of the benchmark: each function measures one row, in a folder that all rows share.

The first line of a docstring describes the row.
"""

import json
import os
from collections.abc import Callable
from pathlib import Path

from bench.jobs import BABY, N_CHARS, ORDER, Changes
from bench.measure import Outcome, clone, dvc, in_turn, job, machine, params_with, python, write_params
from bench.plain import nanogpt
from bench.report import Line
from bukva.core.errors import BukvaError
from bukva.core.files import read_json
from bukva.text.collection import TEXT

ON_CPU = 1.898  # nats per character, the result of nanoGPT's recipe for a CPU (docs/dev/log.md)
SEEDS = (11, 12, 13, 14, 15)  # not the seeds with which the recipes of the race were chosen
PAIRS = 5  # runs of both sides of a comparison
RUNS = 3  # runs of a measurement without another side
SPLIT: Changes = {"split": {"train": 0.98, "val": 0.01, "test": 0.01}}  # a small val makes scoring short
# few updates, because other rows measure their speed, and a user chooses their number
SETTINGS = {
    "download.corpus": "ruslit", "split.train": 0.98, "split.val": 0.01, "split.test": 0.01, "model.ngrams": "input",
    "train_gpt.n_steps": 20, "train_gpt.eval_every": 20, "train_gpt.warmup_steps": 5, "train_bigram.n_steps": 20,
    "train_bigram.eval_every": 20, "sample.n_chars": 100,
}  # fmt: skip

Row = Callable[[Path], list[Line]]
ROWS: dict[str, Row] = {}


def row(measure: Row) -> Row:
    """Add a function to ROWS under its name."""
    ROWS[measure.__name__] = measure
    return measure


# ---- training


@row
def race(scratch: Path) -> list[Line]:
    """Time the training of a GPT to the loss of nanoGPT's recipe for a CPU, against that recipe."""
    raw = fetched(scratch, "tinyshakespeare")
    job("race", recipe="ngrams", seed=0, raw=raw)  # numba compiles all functions
    nano = nanogpt.prepared(raw / TEXT, scratch / "nanogpt-race")
    network, ngrams, plain = in_turn(
        len(SEEDS),
        lambda run: job("race", recipe="network", seed=SEEDS[run], raw=raw),
        lambda run: job("race", recipe="ngrams", seed=SEEDS[run], raw=raw),
        lambda run: nanogpt.recipe(nano) if nano else job("race-plain", seed=SEEDS[run], raw=raw),
    )
    what = f"train to {ON_CPU} nats per character on tinyshakespeare, whole process including scoring"
    nats = max(outcome.values["nats"] for outcome in plain)
    plain_what = f"plain: {nanogpt.description(nano)}, all updates, at worst {nats:.3f} by its own estimate"
    lines = []
    for model, outcomes, required in (
        ("GPT of one layer", network, 5.0),
        ("GPT of one layer with n-grams, counting included", ngrams, 15.0),
    ):
        lines += [
            Line(f"{model}: {what}; {plain_what}", "s", _seconds(outcomes), _seconds(plain), required),
            Line("its loss", "nats", _values(outcomes, "nats"), [], ON_CPU),
        ]
    return lines


@row
def default(scratch: Path) -> list[Line]:
    """Time an update of the default GPT in stage train-gpt, against the plain backend and against a plain loop."""
    folder = _prepared(scratch)
    what = "an update of the default GPT in stage train-gpt"
    ours, unattached, plain = in_turn(
        PAIRS,
        lambda _: _stage_ms(folder, {}, 20, 420),
        lambda _: _stage_ms(folder, {"compute": {"backend": "plain"}}, 20, 220),
        lambda _: _plain_ms(folder, {}, 150),
    )
    return [
        Line(f"{what}; plain: a loop in float32 with AdamW", "ms", ours, plain, 1.8),
        Line(f"{what}; plain: compute.backend=plain", "ms", ours, unattached),
    ]


@row
def training(scratch: Path) -> list[Line]:
    """Time an update of a GPT of 10.7 million parameters in stage train-gpt, against nanoGPT or a plain loop."""
    folder = _prepared(scratch)
    nano = nanogpt.prepared(folder / "data/clean" / TEXT, scratch / "nanogpt-updates")
    ours, plain = in_turn(
        PAIRS,
        lambda _: _stage_ms(folder, BABY, 1, 5),
        lambda _: nanogpt.update_ms(nano) if nano else _plain_ms(folder, BABY, 1),
    )
    what = f"an update of a GPT of 10.7 million parameters in stage train-gpt; plain: {nanogpt.description(nano)}"
    return [Line(what, "ms", ours, plain, 5.0 if "AMX" in machine()["bf16"] else 3.5)]


def _seconds(outcomes: list[Outcome]) -> list[float]:
    return [outcome.seconds for outcome in outcomes]


def _values(outcomes: list[Outcome], name: str) -> list[float]:
    return [outcome.values[name] for outcome in outcomes]


def _prepared(scratch: Path) -> Path:
    """Return a clone in which the pipeline has run up to stage baselines; it is created once per run of the bench."""
    folder = scratch / "updates"
    if not folder.exists():
        write_params(clone(folder), SPLIT)
        dvc(folder, "repro", "baselines")
    return folder


def _stage_ms(folder: Path, changes: Changes, few: int, many: int) -> float:
    """Return the milliseconds of an update in stage train-gpt, from two runs with few and many updates."""
    seconds = []
    for n in (few, many):
        steps = {"n_steps": n, "eval_every": n, "warmup_steps": 0}
        write_params(folder, {**SPLIT, **changes, "train_gpt": changes.get("train_gpt", {}) | steps})
        seconds.append(python(folder, "stages.train_gpt").seconds)
    return 1000 * (seconds[1] - seconds[0]) / (many - few)


def _plain_ms(folder: Path, changes: Changes, n: int) -> float:
    """Return the milliseconds of an update of the plain loop, for a model of the same size on the same text."""
    params = params_with(changes)
    shape = {name: params["model"][name] for name in ("n_layer", "n_head", "n_embd", "block_size", "dropout")}
    shape["vocab_size"] = len(read_json(folder / "data/tokens/vocab.json")["chars"])
    batch_size = params["train_gpt"]["batch_size"]
    outcome = job("updates-plain", split=folder / "data/split", shape=shape, batch_size=batch_size, n=n)
    return float(outcome.values["ms"])


# ---- text


@row
def generation(_: Path) -> list[Line]:
    """Time text generation with a GPT of 10.7 million parameters, against recomputing the window each time."""
    what = (
        f"generate {N_CHARS:,} characters with a GPT of 10.7 million parameters; "
        "plain: recompute the whole window for each character"
    )
    ours, plain = in_turn(PAIRS, lambda _: job("generate"), lambda _: job("generate-plain"))
    return [Line(what, "chars/s", _values(ours, "chars_per_second"), _values(plain, "chars_per_second"))]


@row
def counting(scratch: Path) -> list[Line]:
    """Time counting all n-grams up to order 8 in nine tenths of RusLit."""
    clean = scratch / "clean"
    job("clean", raw=fetched(scratch, "ruslit"), clean=clean)
    ours = [job("count", clean=clean) for _ in range(PAIRS)]
    what = f"count all n-grams up to order {ORDER} in nine tenths of RusLit"
    return [
        Line(what, "s", _values(ours, "seconds"), [], 20.0),
        Line("peak memory, including the text", "MB", [outcome.peak_bytes / 1e6 for outcome in ours], [], 2000.0),
    ]


def fetched(scratch: Path, name: str) -> Path:
    """Return the folder of a corpus as stage download writes it. The corpus is downloaded once per run of the bench."""
    folder = scratch / name
    if not folder.exists():
        job("download", corpus=name, raw=folder)
    return folder


# ---- pipeline


@row
def repro(scratch: Path) -> list[Line]:
    """Time `dvc repro -f` on the embedded corpus, and `dvc repro` with nothing to do."""
    folder = clone(scratch / "repro")
    whole = [dvc(folder, "repro", "-f") for _ in range(RUNS)]
    idle = [dvc(folder, "repro") for _ in range(RUNS)]
    return [
        Line("dvc repro -f, the whole pipeline on the embedded corpus", "s", _seconds(whole), [], 100.0),
        Line("dvc repro with nothing to do", "s", _seconds(idle), [], 2.0),
    ]


@row
def ruslit(scratch: Path) -> list[Line]:
    """Time the first and the second experiment on RusLit, with 20 updates and one run each."""
    if "BUKVA_MIRROR" not in os.environ:
        raise BukvaError(
            "RusLit cannot be downloaded without a mirror. Set BUKVA_MIRROR to a folder that contains its archive."
        )
    folder = clone(scratch / "ruslit-clone")
    settings = [word for name, value in SETTINGS.items() for word in ("-S", f"{name}={value}")]
    first = dvc(folder, "exp", "run", *settings).seconds
    # the time of stage evaluate, from its record, which does not include the start of Python
    (file,) = folder.glob(".bukva/runs/*/evaluate-*/run.jsonl")
    evaluate = json.loads(file.read_text(encoding="utf-8").splitlines()[1])["seconds"]
    second = dvc(folder, "exp", "run", *settings, "-S", "model.n_head=2").seconds
    n_steps = SETTINGS["train_gpt.n_steps"]
    return [
        Line(f"the first experiment on RusLit, with n-grams and {n_steps} updates: dvc exp run", "s", [first], []),
        Line("stage evaluate of the first experiment", "s", [evaluate], [], 120.0),
        Line("the second experiment, with another number of heads", "s", [second], []),
    ]
