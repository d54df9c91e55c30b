"""Rows of training updates: those of stage train-gpt beside those of a plain loop."""

import re
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from bench.clone import clone, dvc, params_with, stage, write_params
from bench.measure import in_turn, job, machine, timer
from bench.plain import nanogpt
from bench.rows import Job, Line
from bukva.core.files import read_json
from bukva.core.machine import CPUINFO
from bukva.text.collection import TEXT

Changes = dict[str, dict[str, Any]]  # of params.yaml, by section

PAIRS = 5
SPLIT: Changes = {"split": {"train": 0.98, "val": 0.01, "test": 0.01}}  # so that little is scored
BABY: Changes = {
    "model": {"n_layer": 6, "n_head": 6, "n_embd": 384, "block_size": 256, "dropout": 0.2},
    "train_gpt": {"batch_size": 64, "micro_batches": 8},
}
# Operations of one core in one cycle, an addition and a multiplication being two. AMX: a TDPBF16PS of 16 x 16 x 32
# every 16 cycles. AVX-512 BF16: a VDPBF16PS of 32 products every cycle, on Zen 5 two of them. (Intel 64 and IA-32
# Architectures Optimization Reference Manual, chapters on AMX and AVX-512; Software Optimization Guides for the AMD
# Zen4 and Zen5 Microarchitectures)
OPERATIONS_PER_CYCLE = {"AMX": 1024, "AVX-512 BF16": 64}
ZEN_5 = re.compile(r"^cpu family\s*: 26$", re.MULTILINE)  # in /proc/cpuinfo; Zen 4 is family 25, Intel 6
CHAIN = 200_000_000  # steps of which each waits for the last one: a multiplication of three cycles, an addition of one
CHAIN_CYCLES = 4

# ---- jobs


def _updates_plain(split: str, shape: dict[str, Any], batch_size: int, n: int) -> dict[str, Any]:
    """Milliseconds of an update of the plain loop, after one that warms up."""
    from bench.plain.gpt import PlainTraining, Recipe, Shape
    from bukva.text.splits import load_splits

    ids = load_splits(Path(split))["train"]
    training = PlainTraining(Shape(**shape), Recipe(batch_size=batch_size), ids, ids, seed=1)
    training.update(0)
    started_at = timer()
    for step in range(1, n + 1):
        training.update(step)
    return {"ms": 1000 * (timer() - started_at) / n}


def _frequency() -> dict[str, Any]:
    """Cycles per second of all cores at once; vector instructions may lower it, so that the peak is an upper bound."""
    from numba import njit

    @njit(nogil=True)
    def chain(n: int, factor: int, summand: int) -> int:
        x = factor
        for _ in range(n):
            x = x * factor + summand
        return x

    cores = machine()["cores"]
    chain(1, 3, 5)
    started_at = time.perf_counter()
    with ThreadPoolExecutor(cores) as pool:
        list(pool.map(chain, [CHAIN] * cores, [3] * cores, [5] * cores))
    return {"hertz": CHAIN_CYCLES * CHAIN / (time.perf_counter() - started_at)}


JOBS: dict[str, Job] = {"updates-plain": _updates_plain, "frequency": _frequency}

# ---- rows


def default(scratch: Path) -> list[Line]:
    """An update of the default GPT in stage train-gpt, by its backend, without a backend, and in a plain loop."""
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
        Line(f"{what}; plain: compute.backend plain", "ms", ours, unattached),
    ]


def training(scratch: Path) -> list[Line]:
    """An update of nanoGPT's model for a GPU, 10.7 million parameters, in stage train-gpt, beside a plain one."""
    folder = _prepared(scratch)
    nano = nanogpt.prepared(folder / "data/clean" / TEXT, scratch / "nanogpt-updates")
    ours, plain = in_turn(
        PAIRS,
        lambda _: _stage_ms(folder, BABY, 1, 5),
        lambda _: nanogpt.update_ms(nano) if nano else _plain_ms(folder, BABY, 1),
    )
    what = f"an update of a GPT of 10.7 million parameters in stage train-gpt; plain: {nanogpt.said(nano)}"
    bf16 = machine()["bf16"]
    lines = [Line(what, "ms", ours, plain, 5.0 if "AMX" in bf16 else 3.5)]
    return [*lines, *_share(ours, _vocab_size(folder), bf16[0])] if bf16 else lines


def _share(ms: list[float], vocab_size: int, instructions: str) -> list[Line]:
    """Return a line with the share of the operations that the cores could do by these instructions at that frequency.

    A share above 100 % means that OPERATIONS_PER_CYCLE is wrong for this processor: it is reported, and gives no line.
    """
    cores, per_cycle = machine()["cores"], _operations_per_cycle(instructions)
    hertz = max(job("frequency").values["hertz"] for _ in range(3))
    peak = cores * hertz * per_cycle
    what = (
        f"its share of the theoretical peak of {peak / 1e9:,.0f} GFLOPS: {cores} cores, {hertz / 1e9:.2f} GHz, "
        f"{per_cycle:,} operations per cycle by {instructions}"
    )
    shares = [100 * _operations(vocab_size) / (each / 1000) / peak for each in ms]
    if max(shares) > 100:
        print(
            f"training: {max(shares):.0f} % of the theoretical peak cannot be: this processor does more than "
            f"{per_cycle:,} operations per cycle by {instructions}; correct OPERATIONS_PER_CYCLE in bench/updates.py.",
            file=sys.stderr,
        )
        return []
    return [Line(what, "%", shares, [])]


def _operations_per_cycle(instructions: str) -> int:
    """Return the operations of one core of this processor in one cycle."""
    is_zen_5 = CPUINFO.exists() and ZEN_5.search(CPUINFO.read_text(encoding="utf-8"))
    return OPERATIONS_PER_CYCLE[instructions] * (2 if is_zen_5 and instructions == "AVX-512 BF16" else 1)


def _operations(vocab_size: int) -> float:
    """Of one update: 6 per matrix parameter and character, and the causal half of the products of attention."""
    L, C, T, B = *(BABY["model"][name] for name in ("n_layer", "n_embd", "block_size")), BABY["train_gpt"]["batch_size"]
    return float(B * T * (6 * (12 * L * C**2 + vocab_size * C) + 6 * L * C * T))


def _prepared(scratch: Path) -> Path:
    """A clone in which the embedded corpus is split and counted; made once in a run."""
    folder = scratch / "updates"
    if not folder.exists():
        write_params(clone(folder), params_with(SPLIT))
        dvc(folder, "repro", "baselines")
    return folder


def _vocab_size(folder: Path) -> int:
    return len(read_json(folder / "data/tokens/vocab.json")["chars"])


def _stage_ms(folder: Path, changes: Changes, few: int, many: int) -> float:
    """Milliseconds of an update in the stage: a run with many updates less one with few, both whole."""
    seconds = []
    for n_steps in (few, many):
        params = params_with(SPLIT | changes)
        params["train_gpt"].update(n_steps=n_steps, eval_every=n_steps, warmup_steps=0)
        seconds.append(stage(folder, "train_gpt", params).seconds)
    return 1000 * (seconds[1] - seconds[0]) / (many - few)


def _plain_ms(folder: Path, changes: Changes, n: int) -> float:
    """Milliseconds of an update of the plain loop, of the same size and text."""
    params = params_with(changes)
    shape = {name: params["model"][name] for name in ("n_layer", "n_head", "n_embd", "block_size", "dropout")}
    shape["vocab_size"] = _vocab_size(folder)
    batch_size = params["train_gpt"]["batch_size"]
    outcome = job("updates-plain", split=folder / "data/split", shape=shape, batch_size=batch_size, n=n)
    return float(outcome.values["ms"])
