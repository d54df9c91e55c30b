"""The end of a search: its winner against params.yaml, on seeds by which nothing was chosen."""

import subprocess
import sys
from collections.abc import Sequence

from bukva.cluster.trials import Sweep, Trial

SEED = "train_gpt.seed"


def rivals(search: str, commit: str, winner: Trial, seeds: Sequence[int]) -> Sweep:
    """params.yaml and the winner, each with all seeds."""
    sides = {"params": (), "winner": winner.settings}
    return Sweep(
        f"{search}-seeds",
        commit,
        tuple(
            Trial(f"{search}-{side}-{seed}", (*settings, f"{SEED}={seed}"))
            for side, settings in sides.items()
            for seed in seeds
        ),
    )


def print_verdict(sweep: Sweep, seeds: Sequence[int]) -> int:
    """Print whether the winner is better on val, over these seeds only; returns the exit status of compare."""
    only = [word for seed in seeds for word in ("--seed", str(seed))]
    names = sweep.trials[0].name, sweep.trials[-1].name
    return subprocess.run([sys.executable, "-m", "bukva", "compare", *only, "--", *names]).returncode
