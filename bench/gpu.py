"""Row `gpu`, which is also a script: `python -m bench.gpu [PART ...] [--device cpu] [--quick]`.

The script needs neither DVC nor an MLflow server, so it runs on a bare machine that is rented for minutes. With
`--quick` every size is tiny, which checks that the parts run and measures nothing. All trainings run in this process,
because imports and the start of CUDA take longer than many of them.
"""

import hashlib
import importlib.metadata
import io
import math
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bench import report
from bench.jobs import BABY, Changes, load_ids, score
from bench.measure import ROOT, params_with, timer
from bench.plain import nanogpt
from bench.report import Line
from bench.rows import fetched
from bukva.cli import console
from bukva.core.errors import BukvaError
from bukva.text.collection import TEXT

if TYPE_CHECKING:
    from bukva.models.gpt import GPTConfig
    from bukva.training.run import Task

_SIZE = {"block_size": 256, "ngrams": "none"}
_BATCH = {"batch_size": 64}
SHAPES: dict[str, Changes] = {
    "10.7M": {"model": {**_SIZE, **BABY["model"]}, "train_gpt": _BATCH},
    "default": {},
    "57M": {
        "model": {**_SIZE, "n_layer": 8, "n_head": 12, "n_embd": 768, "dropout": 0.1},
        "train_gpt": {"batch_size": 128},
    },
    "85M": {"model": {**_SIZE, "n_layer": 12, "n_head": 12, "n_embd": 768, "dropout": 0.0}, "train_gpt": _BATCH},
}
N_UPDATES = {"default": 400, "10.7M": 200, "57M": 60, "85M": 60}
N_PLAIN = 30  # updates of the plain backend, which are far slower
WARM_UP = 30  # updates before the clock starts; they compile kernels and capture the CUDA graph
N_COMPARED = 100  # updates of each training whose bytes are compared
RACE: Changes = {  # with 1,500 updates, 24 epochs, the loss on val rises again (docs/dev/log.md)
    "model": SHAPES["10.7M"]["model"],
    "train_gpt": {**_BATCH, "n_steps": 600, "warmup_steps": 50, "weight_decay": 0.5},
}
TINY: Changes = {"model": {"n_layer": 1, "n_head": 2, "n_embd": 16, "block_size": 16}, "train_gpt": {"batch_size": 4}}

# Requirements for an H100 or H200. nanoGPT's compiled train.py runs on the same card.
BEFORE = 20.4  # milliseconds of an update of the default model at commit 1796985 (docs/scaling-method.md)
ON_A100 = 1.4697  # nats per character, the result of nanoGPT's recipe for a GPU: 10.65 M parameters, three minutes
FASTER_THAN_BEFORE, FASTER_THAN_NANOGPT, PERCENT_OF_PEAK, RACE_SECONDS = 10.0, 2.2, 35.0, 20.0

# Peak TFLOPS of dense bf16 matrix products, by the name that torch reports (NVIDIA's data sheets; half of the figure
# "with sparsity").
PEAKS = {"NVIDIA H100 80GB HBM3": 989.0, "NVIDIA H200": 989.0, "NVIDIA A100-SXM4-80GB": 312.0, "NVIDIA L4": 121.0}


class Bench:
    """Settings of all parts: temporary folder, device, name of the GPU ("" for a CPU), and whether sizes are tiny."""

    def __init__(self, scratch: Path, device: str, *, quick: bool) -> None:
        import torch

        self.scratch, self.device, self.quick = scratch, device, quick
        self.card = torch.cuda.get_device_name() if device != "cpu" and torch.cuda.is_available() else ""
        self.peak = PEAKS.get(self.card, 0.0)

    def required(self, value: float) -> float | None:
        """Return the requirement on an H100 or H200, and None on other devices."""
        return value if "H100" in self.card or "H200" in self.card else None

    def task(self, wanted: Changes, splits: dict[str, Any], tokenizer: Any, backend: str, *, compiled: bool) -> "Task":
        """Return the task of stage train-gpt with changes of params.yaml. Val is scored only before and at the end."""
        from bukva.backends import cuda
        from bukva.backends.device import prepare
        from bukva.core.params import parse_params
        from bukva.models.gpt import GPTConfig
        from bukva.training.run import Task

        cuda.COMPILE_SECONDS = 0.0 if compiled else math.inf
        raw = params_with({**wanted, "compute": {"device": self.device, "backend": backend}})
        for section, values in TINY.items() if self.quick else ():
            raw[section].update(values)
        raw["train_gpt"]["eval_every"] = raw["train_gpt"]["n_steps"]
        params = parse_params(raw, "bench")
        config = GPTConfig(vocab_size=len(tokenizer), **params.model.model_dump())
        return Task.of(config, splits, tokenizer, params.train_gpt, prepare(params.compute))

    def train(
        self, shape: str, first: int, last: int, *, backend: str = "auto", resume_at: int = 0, compiled: bool = True
    ) -> dict[str, Any]:
        """Time the updates after `first` up to `last` of a training on the embedded corpus.

        resume_at: number of updates after which the training is resumed from its checkpoint; 0 for none.
        compiled: compile the losses on a GPU even for a short training. Compilation is not timed.

        Returns:
            The speed, and a digest of the trained weights.
        """
        import torch

        from bukva.models.gpt import GPTConfig
        from bukva.text.tokenizers import CharTokenizer
        from bukva.training.callback import StopAfter
        from bukva.training.run import run_training, start

        works = sorted((ROOT / "data" / "sample").rglob("*.txt"))
        text = "".join(work.read_text(encoding="utf-8") for work in works)
        tokenizer = CharTokenizer.train([text])
        ids = tokenizer.encode(text)
        splits = {"train": ids[5000:], "val": ids[:5000]}
        task = self.task(SHAPES[shape], splits, tokenizer, backend, compiled=compiled)
        state, clock = start(task), _clock(first, last)
        config = state.model.config
        assert isinstance(config, GPTConfig)
        if resume_at:
            run_training(task, state, [StopAfter(resume_at)])
            torch.save(state.state_dict(), checkpoint := io.BytesIO())
            checkpoint.seek(0)
            state = start(task)
            state.load_state_dict(torch.load(checkpoint, weights_only=True))
        run_training(task, state, [clock, StopAfter(last)])
        weights = b"".join(tensor.contiguous().numpy().tobytes() for _, tensor in sorted(state.weights().items()))
        chars_per_second = task.chars_seen(last - first) / clock.seconds
        return {
            "ms": 1000 * clock.seconds / (last - first),
            "chars_per_second": chars_per_second,
            "tflops": chars_per_second * flops_per_id(config) / 1e12,
            "digest": hashlib.sha256(weights).hexdigest(),
        }


def flops_per_id(config: "GPTConfig") -> int:
    """Return the floating-point operations per id in training: 6 N + 6 L C T for N parameters in matrix products.

    The sources have 12 L C T, because they also count the half of attention that the causal mask hides. Attention
    kernels skip this half. Sources: Chowdhery et al. 2022, "PaLM", appendix B; nanoGPT's estimate_mfu.
    """
    from bukva.models.registry import count_parameters

    V, C, T = config.vocab_size, config.n_embd, config.block_size
    # rows of embedding tables are looked up, without a matrix product
    looked_up = (0 if config.tie_weights else V * C) + (T * C if config.positions == "learned" else 0)
    return 6 * (count_parameters(config) - looked_up) + 6 * config.n_layer * C * T


def _clock(first: int, last: int) -> Any:
    """Return a callback that times the updates after `first` up to `last`, and synchronizes only at both ends."""
    from bukva.training.callback import Callback

    class Clock(Callback):
        started_at = seconds = 0.0

        def on_update(self, _: Any, progress: Any) -> None:
            if progress.step == first:
                self.started_at = timer()
            if progress.step == last:
                self.seconds = timer() - self.started_at

    return Clock()


# ---- parts, which yield the lines of the table


def equal(bench: Bench) -> Iterator[Line]:
    """Check that a repeated training and a resumed training give the same weights, byte for byte."""
    last = 5 if bench.quick else N_COMPARED
    for shape, compiled in (("default", False), ("10.7M", True)):
        runs = [bench.train(shape, 1, last, resume_at=n, compiled=compiled) for n in (0, 0, last // 2)]
        whole, *others = (run["digest"] for run in runs)
        for what, other in zip(("a second training", "a resumed training"), others, strict=True):
            how = f"{what} of model {shape}{' with compiled losses' * compiled}"
            yield Line(f"{how} differs from the first (0: no, 1: yes)", "", [float(other != whole)], [], 0.0)


def race(bench: Bench) -> Iterator[Line]:
    """Time the training of a GPT without n-grams to nanoGPT's loss on tinyshakespeare.

    The time of the updates after the first ones is extrapolated to all updates, so compilation is not counted.
    """
    from bukva.text.tokenizers import CharTokenizer
    from bukva.training.run import run_training, start

    raw = fetched(bench.scratch, "tinyshakespeare")
    train, val = load_ids(str(raw))
    tokenizer = CharTokenizer.train([(raw / TEXT).read_text(encoding="utf-8")])
    n = 4 if bench.quick else RACE["train_gpt"]["n_steps"]
    changes = {**RACE, "train_gpt": {**RACE["train_gpt"], "n_steps": n, "warmup_steps": min(50, n - 1)}}
    task = bench.task(changes, {"train": train, "val": val}, tokenizer, "auto", compiled=True)
    state, first, started_at = start(task), min(WARM_UP, n // 2), timer()
    clock = _clock(first, n)
    run_training(task, state, [clock])
    seconds, whole = clock.seconds * n / (n - first), timer() - started_at
    what = "train a GPT without n-grams on tinyshakespeare, compilation not counted"
    yield Line(what, "s", [seconds], [], bench.required(RACE_SECONDS))
    yield Line("its loss in adjacent windows", "nats", [score(state.model, val)], [], bench.required(ON_A100))
    yield Line("with compilation", "s", [whole], [])


def updates(bench: Bench) -> Iterator[Line]:
    """Time updates of three models, against the plain backend and nanoGPT's compiled train.py."""
    for shape in SHAPES:
        first, last, last_plain = (2, 5, 5) if bench.quick else (WARM_UP, WARM_UP + N_UPDATES[shape], 5 + N_PLAIN)
        ours = bench.train(shape, first, last)
        if shape == "10.7M":
            yield from _nanogpt(bench, ours["ms"])
        plain = bench.train(shape, min(5, first), last_plain, backend="plain")
        yield Line(f"an update of model {shape}; plain: compute.backend=plain", "ms", [ours["ms"]], [plain["ms"]])
        yield Line("its speed", "chars/s", [ours["chars_per_second"]], [])
        if bench.peak:
            required = bench.required(PERCENT_OF_PEAK) if shape == "85M" else None
            what = f"percentage of the card's bf16 peak of {bench.peak:g} TFLOPS: {ours['tflops']:.3g} TFLOPS"
            yield Line(what, "%", [100 * ours["tflops"] / bench.peak], [], required)
        if shape == "default":
            what = f"an update of model default, {BEFORE} ms at commit 1796985"
            yield Line(what, "ms", [ours["ms"]], [], bench.required(BEFORE / FASTER_THAN_BEFORE))


def _nanogpt(bench: Bench, ours: float) -> Iterator[Line]:
    if not bench.card or "BUKVA_NANOGPT" not in os.environ:
        print("nanoGPT: skipped. It needs a GPU, and BUKVA_NANOGPT must name a checkout of nanoGPT.", flush=True)
        return
    nano = nanogpt.prepared(fetched(bench.scratch, "tinyshakespeare") / TEXT, bench.scratch / "nanogpt-gpu")
    theirs = nanogpt.compiled_update_ms(nano) if nano else 0.0
    what = "an update of model 10.7M; plain: nanoGPT's train.py, compiled"
    yield Line(what, "ms", [ours], [theirs], bench.required(FASTER_THAN_NANOGPT))


PARTS: dict[str, Callable[[Bench], Iterator[Line]]] = {"equal": equal, "race": race, "updates": updates}

# ---- the row and the script

app = typer.Typer(**console.STYLE)


def gpu(scratch: Path) -> list[Line]:
    """Measure reproducibility, a race and updates on a GPU; skipped without a GPU."""
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
    console.call(app)
