"""Row `gpu`, which is also a script: `python -m bench.gpu [PART ...] [--device cpu] [--quick]`.

The script needs neither DVC nor an MLflow server, so it runs on a bare machine that is rented for minutes. With
`--quick` every size is tiny, which checks that the parts run and measures nothing.
"""

import importlib.metadata
import math
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bench import report
from bench.clone import params_with, stage
from bench.measure import ROOT, Outcome, job, timer
from bench.plain import nanogpt
from bench.race import ON_A100, load_ids, score
from bench.rows import Job, Line
from bench.text import fetched
from bench.updates import BABY
from bukva.cli import stage as cli
from bukva.core.errors import BukvaError
from bukva.project.stages import stages
from bukva.text.collection import TEXT

if TYPE_CHECKING:
    from bukva.training.run import Task

Changes = dict[str, dict[str, Any]]  # changes of params.yaml, by section

_SIZE = {"block_size": 256, "ngrams": "none"}
_BATCH = {"batch_size": 64}
SHAPES: dict[str, Changes] = {
    "default": {},
    "10.7M": {"model": {**_SIZE, **BABY["model"]}, "train_gpt": _BATCH},
    "85M": {"model": {**_SIZE, "n_layer": 12, "n_head": 12, "n_embd": 768, "dropout": 0.0}, "train_gpt": _BATCH},
}
N_UPDATES = {"default": 400, "10.7M": 200, "85M": 60}
WARM_UP = 30  # updates before the clock starts; they compile kernels and capture the CUDA graph
N_COMPARED = 100  # updates of each training whose bytes are compared
RACE: Changes = {
    "model": SHAPES["10.7M"]["model"],
    "train_gpt": {**_BATCH, "n_steps": 1500, "warmup_steps": 50, "weight_decay": 0.5},
}
TINY: Changes = {"model": {"n_layer": 1, "n_head": 2, "n_embd": 16, "block_size": 16}, "train_gpt": {"batch_size": 4}}
# files of the project that its stages need
COPIED = "src", "stages", "rules", "dvc.yaml", "numerics.lock", "pyproject.toml", "data/sample"
BACKENDS = "auto", "plain"

# Requirements for an H100 or H200. nanoGPT's compiled train.py runs on the same card.
BEFORE = 20.4  # milliseconds of an update of the default model at commit 1796985 (docs/scaling-method.md)
FASTER_THAN_BEFORE, FASTER_THAN_NANOGPT, PERCENT_OF_PEAK, RACE_SECONDS = 10.0, 2.2, 35.0, 20.0

# ---- jobs


def _updates(changes: Changes, first: int, last: int, resume_at: int = 0, is_compiled: bool = True) -> dict[str, Any]:
    """Time the updates after `first` up to `last` of a training on the embedded corpus.

    resume_at: number of updates after which the training is resumed from its checkpoint; 0 for none.
    is_compiled: compile the losses on a GPU even for a short training. Compilation is not timed.

    Returns:
        The speed, and a digest of the trained weights.
    """
    import hashlib

    from bukva.durability.packing import pack, unpack
    from bukva.text.tokenizers.char import CharTokenizer
    from bukva.training.callback import StopAfter
    from bukva.training.run import run_training, start

    works = sorted((ROOT / "data" / "sample").rglob("*.txt"))
    text = "".join(work.read_text(encoding="utf-8") for work in works)
    tokenizer = CharTokenizer.train([text])
    ids = tokenizer.encode(text)
    task = _task(changes, {"train": ids[5000:], "val": ids[:5000]}, tokenizer, is_compiled=is_compiled)
    state, clock = start(task), _clock(first, last)
    if resume_at:
        run_training(task, state, [StopAfter(resume_at)])
        checkpoint = pack(state.state_dict())
        state = start(task)
        state.load_state_dict(unpack(checkpoint))
    run_training(task, state, [clock, StopAfter(last)])
    weights = b"".join(tensor.contiguous().numpy().tobytes() for _, tensor in sorted(state.weights().items()))
    chars_per_second = task.chars_seen(last - first) / clock.seconds
    return {
        "ms": 1000 * clock.seconds / (last - first),
        "chars_per_second": chars_per_second,
        "tflops": chars_per_second * _flops_per_id(changes, len(tokenizer)) / 1e12,
        "digest": hashlib.sha256(weights).hexdigest(),
    }


def _race(changes: Changes, raw: str) -> dict[str, Any]:
    """Train on tinyshakespeare to the end; return the loss, and the seconds of training without compilation.

    The time of the updates after WARM_UP is extrapolated to all updates.
    """
    from bukva.text.tokenizers.char import CharTokenizer
    from bukva.training.run import run_training, start

    train, val = load_ids(raw)
    tokenizer = CharTokenizer.train([(Path(raw) / TEXT).read_text(encoding="utf-8")])
    task = _task(changes, {"train": train, "val": val}, tokenizer)
    n, state = task.recipe.n_steps, start(task)
    first = min(WARM_UP, n // 2)
    clock = _clock(first, n)
    run_training(task, state, [clock])
    return {"seconds": clock.seconds * n / (n - first), "nats": score(state.model, val)}


def _card(device: str) -> dict[str, Any]:
    """Return the name of the GPU ("" without one) and its bf16 peak in TFLOPS (0 if bukva does not know it)."""
    import torch

    from bukva.planning.gpu import CARDS

    card = torch.cuda.get_device_name() if device != "cpu" and torch.cuda.is_available() else ""
    return {"card": card, "peak": next((each.tflops for each in CARDS.values() if each.name == card), 0.0)}


def _task(changes: Changes, splits: dict[str, Any], tokenizer: Any, *, is_compiled: bool = True) -> "Task":
    """Return the training task of stage train-gpt with changes of params.yaml.

    Val is scored only before and after the training.
    """
    from bukva.backends.cuda import backend
    from bukva.backends.device import prepare
    from bukva.config.load import parse_params
    from bukva.models.gpt import GPTConfig
    from bukva.training.run import Task

    backend.COMPILE_SECONDS = 0.0 if is_compiled else math.inf
    raw = params_with(changes)
    raw["train_gpt"]["eval_every"] = raw["train_gpt"]["n_steps"]
    params = parse_params(raw, "bench")
    config = GPTConfig(vocab_size=len(tokenizer), **params.model.model_dump())
    return Task.of(config, splits, tokenizer, params.train_gpt, prepare(params.compute))


def _flops_per_id(changes: Changes, vocab_size: int) -> int:
    from bukva.models.gpt import GPTConfig
    from bukva.planning.gpu import flops_per_id

    return flops_per_id(GPTConfig(vocab_size=vocab_size, **params_with(changes)["model"]))


def _clock(first: int, last: int) -> Any:
    """Return a callback that times the updates after `first` up to `last`.

    The callback synchronizes with the GPU only at the start and at the end of this interval.
    """
    from bukva.training.callback import Callback

    class Clock(Callback):
        started_at = seconds = 0.0

        def on_update(self, _: Any, progress: Any) -> None:
            if progress.step == first:
                self.started_at = timer()
            if progress.step == last:
                self.seconds = timer() - self.started_at

    return Clock()


JOBS: dict[str, Job] = {"gpu-updates": _updates, "gpu-race": _race, "gpu-card": _card}

# ---- parts, which yield the lines of the table


class Bench:
    """Settings of all parts: temporary folder, device, name of the GPU ("" for a CPU), and whether sizes are tiny."""

    def __init__(self, scratch: Path, device: str, *, quick: bool) -> None:
        self.scratch, self.device, self.quick = scratch, device, quick
        values = job("gpu-card", device=device).values
        self.card, self.peak = str(values["card"]), float(values["peak"])

    def required(self, value: float) -> float | None:
        """Return the requirement on an H100 or H200, and None on other devices."""
        return value if "H100" in self.card or "H200" in self.card else None

    def changes(self, wanted: Changes, backend: str = BACKENDS[0]) -> Changes:
        """Return changes of params.yaml: the wanted changes, device and backend, and tiny sizes with `--quick`."""
        compute = {"device": self.device, "backend": backend}
        tiny = TINY if self.quick else {}
        sections = {key: {**wanted.get(key, {}), **tiny.get(key, {})} for key in wanted.keys() | tiny.keys()}
        return {**sections, "compute": compute}

    def updates(self, shape: str, backend: str = BACKENDS[0], **arguments: int) -> Outcome:
        """Run the job `gpu-updates` for a shape, by default with the updates to time."""
        first, last = (2, 5) if self.quick else (WARM_UP, WARM_UP + N_UPDATES[shape])
        return job(
            "gpu-updates", **{"changes": self.changes(SHAPES[shape], backend), "first": first, "last": last} | arguments
        )


def updates(bench: Bench) -> Iterator[Line]:
    """Time updates of three models, against the plain backend and nanoGPT's compiled train.py."""
    ms = {}
    for shape in SHAPES:
        ours, plain = (bench.updates(shape, backend).values for backend in BACKENDS)
        ms[shape] = ours["ms"]
        yield Line(f"an update of model {shape}; plain: compute.backend=plain", "ms", [ours["ms"]], [plain["ms"]])
        yield Line("its speed", "chars/s", [ours["chars_per_second"]], [])
        if bench.peak:
            required = bench.required(PERCENT_OF_PEAK) if shape == "85M" else None
            what = f"percentage of the card's bf16 peak of {bench.peak:g} TFLOPS: {ours['tflops']:.3g} TFLOPS"
            yield Line(what, "%", [100 * ours["tflops"] / bench.peak], [], required)
    required = bench.required(BEFORE / FASTER_THAN_BEFORE)
    yield Line(f"an update of model default, {BEFORE} ms at commit 1796985", "ms", [ms["default"]], [], required)
    if not bench.card or "BUKVA_NANOGPT" not in os.environ:
        print("nanoGPT: skipped. It needs a GPU, and BUKVA_NANOGPT must name a checkout of nanoGPT.", flush=True)
        return
    nano = nanogpt.prepared(fetched(bench.scratch, "tinyshakespeare") / TEXT, bench.scratch / "nanogpt-gpu")
    theirs = nanogpt.compiled_update_ms(nano) if nano else 0.0
    what = "an update of model 10.7M; plain: nanoGPT's train.py, compiled"
    yield Line(what, "ms", [ms["10.7M"]], [theirs], bench.required(FASTER_THAN_NANOGPT))


def equal(bench: Bench) -> Iterator[Line]:
    """Check that a repeated training and a resumed training give the same weights, byte for byte."""
    last = 5 if bench.quick else N_COMPARED
    for shape, is_compiled in (("default", False), ("10.7M", True)):
        runs = [
            bench.updates(shape, first=1, last=last, resume_at=n, is_compiled=is_compiled) for n in (0, 0, last // 2)
        ]
        whole, *others = (run.values["digest"] for run in runs)
        for what, other in zip(("a second training", "a resumed training"), others, strict=True):
            how = f"{what} of model {shape}{' with compiled losses' * is_compiled}"
            yield Line(f"{how} differs from the first (0: no, 1: yes)", "", [float(other != whole)], [], 0.0)


def race(bench: Bench) -> Iterator[Line]:
    """Time the training of a GPT without n-grams to nanoGPT's loss on tinyshakespeare."""
    raw = fetched(bench.scratch, "tinyshakespeare")
    changes = bench.changes(RACE)
    if bench.quick:
        changes["train_gpt"] |= {"n_steps": 4, "warmup_steps": 1}
    outcome = job("gpu-race", changes=changes, raw=raw)
    what = "train a GPT without n-grams on tinyshakespeare, compilation not counted"
    yield Line(what, "s", [outcome.values["seconds"]], [], bench.required(RACE_SECONDS))
    yield Line("its loss in adjacent windows", "nats", [outcome.values["nats"]], [], bench.required(ON_A100))
    yield Line("the whole process", "s", [outcome.seconds], [])


def stage_times(bench: Bench) -> Iterator[Line]:
    """Time the stages sample and evaluate on the GPU, against two threads of the CPU."""
    folder = bench.scratch / "gpu-stages"
    (folder / "data").mkdir(parents=True)
    for name in COPIED:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, folder / name)
    short = {"train_bigram": {"n_steps": 20, "eval_every": 20}, "train_gpt": {"n_steps": 20, "eval_every": 20}}
    short |= {"sample": {"n_chars": 20}} if bench.quick else {}
    names = [name.replace("-", "_") for name in stages()]
    for name in names[: names.index("evaluate")]:
        stage(folder, name, params_with({**short, "compute": {"device": bench.device}}))
    for name in ("sample", "evaluate"):
        devices: list[dict[str, Any]] = [{"device": bench.device}, {"device": "cpu", "threads": 2}]
        ours, cpu = (stage(folder, name, params_with({**short, "compute": device})).seconds for device in devices)
        yield Line(f"stage {name}, embedded corpus; plain: two threads of the CPU", "s", [ours], [cpu])


PARTS: dict[str, Callable[[Bench], Iterator[Line]]] = {
    "updates": updates,
    "equal": equal,
    "race": race,
    "stages": stage_times,
}

# ---- the row and the script

app = typer.Typer(**cli.STYLE)


def gpu(scratch: Path) -> list[Line]:
    """Measure updates, reproducibility, a race and stages on a GPU; skipped without a GPU."""
    bench = Bench(scratch, "auto", quick=False)
    if not bench.card:
        print("    gpu: skipped, because this machine has no usable GPU.", flush=True)
        return []
    return [line for part in PARTS.values() for line in part(bench)]


@app.command()
def main(
    parts: Annotated[
        list[str] | None, typer.Argument(help=f"Parts to run: {', '.join(PARTS)}; by default all.")
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cuda or cpu.")] = "auto",
    quick: Annotated[
        bool, typer.Option("--quick", help="Check that the parts run, with tiny sizes; measure nothing.")
    ] = False,
) -> None:
    """Measure a GPU in at most five minutes, and print each line once it is measured.

    The exit status is 1 if a requirement is not met or a part cannot be measured.
    """
    if unknown := [name for name in parts or () if name not in PARTS]:
        raise BukvaError(f"bench.gpu: unknown part {', '.join(unknown)}. Use {', '.join(PARTS)}.")
    with tempfile.TemporaryDirectory(prefix="bukva-bench-", ignore_cleanup_errors=True) as scratch:
        bench = Bench(Path(scratch), device, quick=quick)
        torch = importlib.metadata.version("torch")
        print(f"{bench.card or 'CPU'}, torch {torch}" + ", tiny sizes that measure nothing" * quick, flush=True)
        is_met = True
        for name in parts or PARTS:
            try:
                for line in PARTS[name](bench):
                    is_met = is_met and line.met is not False
                    [cells] = report.table(name, [asdict(line)])
                    print(" | ".join(filter(None, cells)), flush=True)
            except BukvaError as error:  # for example, a text cannot be downloaded
                is_met = False
                print(f"{name}: not measured: {error}", file=sys.stderr, flush=True)
    raise typer.Exit(0 if is_met else 1)


if __name__ == "__main__":
    cli.call(app)
