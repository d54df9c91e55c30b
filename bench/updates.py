"""Rows `default` and `training`: updates of stage train-gpt against updates of a plain loop."""

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

Changes = dict[str, dict[str, Any]]  # changes of params.yaml, by section

PAIRS = 5
SPLIT: Changes = {"split": {"train": 0.98, "val": 0.01, "test": 0.01}}  # a small val makes scoring short
BABY: Changes = {
    "model": {"n_layer": 6, "n_head": 6, "n_embd": 384, "block_size": 256, "dropout": 0.2},
    "train_gpt": {"batch_size": 64, "micro_batches": 8},
}
# Operations per core and cycle; a multiplication and an addition count as two. AMX: one TDPBF16PS of 16 x 16 x 32
# every 16 cycles. AVX-512 BF16: one VDPBF16PS of 32 products per cycle, two on Zen 5. (Intel 64 and IA-32
# Architectures Optimization Reference Manual, chapters on AMX and AVX-512; Software Optimization Guides for the AMD
# Zen4 and Zen5 Microarchitectures)
OPERATIONS_PER_CYCLE = {"AMX": 1024, "AVX-512 BF16": 64}
ZEN_5 = re.compile(r"^cpu family\s*: 26$", re.MULTILINE)  # in /proc/cpuinfo; Zen 4 is family 25, Intel 6
CHAIN = 200_000_000  # dependent steps: each waits for the step before
CHAIN_CYCLES = 4  # cycles per step: three for the multiplication, one for the addition

# ---- jobs


def _updates_plain(split: str, shape: dict[str, Any], batch_size: int, n: int) -> dict[str, Any]:
    """Return the milliseconds of an update of the plain loop, after one warm-up update."""
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
    """Return the clock frequency of the cores in hertz while all cores are busy.

    Vector instructions can lower the frequency, so the peak computed from it is an upper bound.
    """
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
    bf16 = machine()["bf16"]
    lines = [Line(what, "ms", ours, plain, 5.0 if "AMX" in bf16 else 3.5)]
    return [*lines, *_share(ours, _vocab_size(folder), bf16[0])] if bf16 else lines


def _share(ms: list[float], vocab_size: int, instructions: str) -> list[Line]:
    """Return a line with the percentage of the theoretical peak that an update reaches.

    The peak is the number of operations that all cores can do with these instructions at the measured frequency. More
    than 100 % means that OPERATIONS_PER_CYCLE is wrong for this processor; then a message is printed and no line
    returned.
    """
    cores, per_cycle = machine()["cores"], _operations_per_cycle(instructions)
    hertz = max(job("frequency").values["hertz"] for _ in range(3))
    peak = cores * hertz * per_cycle
    what = (
        f"percentage of the theoretical peak of {peak / 1e9:,.0f} GFLOPS: {cores} cores, {hertz / 1e9:.2f} GHz, "
        f"{per_cycle:,} operations per cycle by {instructions}"
    )
    shares = [100 * _operations(vocab_size) / (each / 1000) / peak for each in ms]
    if max(shares) > 100:
        print(
            f"training: {max(shares):.0f} % of the theoretical peak is impossible, so this processor does more than "
            f"{per_cycle:,} operations per cycle by {instructions}. Correct OPERATIONS_PER_CYCLE in bench/updates.py.",
            file=sys.stderr,
        )
        return []
    return [Line(what, "%", shares, [])]


def _operations_per_cycle(instructions: str) -> int:
    """Return the operations per cycle of one core of this processor."""
    is_zen_5 = CPUINFO.exists() and ZEN_5.search(CPUINFO.read_text(encoding="utf-8"))
    return OPERATIONS_PER_CYCLE[instructions] * (2 if is_zen_5 and instructions == "AVX-512 BF16" else 1)


def _operations(vocab_size: int) -> float:
    """Return the operations of one update of BABY.

    The sum has 6 operations per matrix parameter and character, and the causal half of attention's matrix products.
    """
    L, C, T, B = *(BABY["model"][name] for name in ("n_layer", "n_embd", "block_size")), BABY["train_gpt"]["batch_size"]
    return float(B * T * (6 * (12 * L * C**2 + vocab_size * C) + 6 * L * C * T))


def _prepared(scratch: Path) -> Path:
    """Return a clone in which the pipeline has run up to stage baselines; it is created once per run of the bench."""
    folder = scratch / "updates"
    if not folder.exists():
        write_params(clone(folder), params_with(SPLIT))
        dvc(folder, "repro", "baselines")
    return folder


def _vocab_size(folder: Path) -> int:
    return len(read_json(folder / "data/tokens/vocab.json")["chars"])


def _stage_ms(folder: Path, changes: Changes, few: int, many: int) -> float:
    """Return the milliseconds of an update in stage train-gpt.

    The value is the time of a run with many updates minus the time of a run with few, divided by the difference in
    updates.
    """
    seconds = []
    for n_steps in (few, many):
        params = params_with(SPLIT | changes)
        params["train_gpt"].update(n_steps=n_steps, eval_every=n_steps, warmup_steps=0)
        seconds.append(stage(folder, "train_gpt", params).seconds)
    return 1000 * (seconds[1] - seconds[0]) / (many - few)


def _plain_ms(folder: Path, changes: Changes, n: int) -> float:
    """Return the milliseconds of an update of the plain loop, for a model of the same size on the same text."""
    params = params_with(changes)
    shape = {name: params["model"][name] for name in ("n_layer", "n_head", "n_embd", "block_size", "dropout")}
    shape["vocab_size"] = _vocab_size(folder)
    batch_size = params["train_gpt"]["batch_size"]
    outcome = job("updates-plain", split=folder / "data/split", shape=shape, batch_size=batch_size, n=n)
    return float(outcome.values["ms"])
