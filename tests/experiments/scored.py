"""Results with scores of every character, drawn: settings and seeds have the effects that are asked for."""

from dataclasses import replace

import numpy as np
from experiments.made import ABOUT, NUMERICS, result

from bukva.text.collection import Document
from bukva.text.scores import files_of, save_scores

N_WORKS, CHARS = 13, 101
WORKS = [Document("prose", "abc"[work % 3], f"work {work}") for work in range(N_WORKS)]
DIGESTS = {"text": {"val": "1" * 64, "test": "2" * 64}}


def scored(folder, name, changes=(), effect=0.0, seed_effect=0.0, about=(), numerics=NUMERICS, parameters=7, **more):
    """A result whose model has `effect` more bits per character on every work, and `seed_effect` more still.

    Works differ, and effects differ between works a little.
    """
    rng = np.random.default_rng(1)
    base = rng.normal(2.5, 0.2, N_WORKS) + effect * rng.normal(1, 0.1, N_WORKS) + seed_effect
    if effect:
        base += np.random.default_rng(2).normal(0, 0.002, N_WORKS)
    nats = {
        split: (np.repeat(base, CHARS) * np.log(2) * (1 + 0.01 * (split == "test"))).astype(np.float32)
        for split in ("val", "test")
    }
    target = folder / f"scores-{name}"
    models = {model: {"numerics": numerics, "parameters": parameters} for model in ("gpt", "bigram")}
    said = ABOUT | DIGESTS | dict(about) | {"models": models}
    chars = {split: np.full(N_WORKS, CHARS) for split in nats}
    rows = {"gpt": nats, "bigram": nats}
    save_scores(target, said, WORKS, chars, rows)
    bits = {
        row: {split: float(values.mean(dtype=np.float64) / np.log(2)) for split, values in of_row.items()}
        for row, of_row in rows.items()
    }
    return replace(
        result(folder, name, changes, DIGESTS | dict(about), numerics, **more),
        scores=files_of(target),
        metrics=bits,
        curves={model: [(1000, 1_024_000, 1.8)] for model in ("gpt", "bigram")},
    )


def seeds_of(known, name, seeds, changes=(), effect=0.0, sd=0.005, **more):
    """A training of one setting for each seed, whose luck has a standard deviation of about `sd`."""
    for seed in seeds:
        luck = np.random.default_rng(seed).normal(0, sd)
        known(f"{name}{seed}", {**dict(changes), "train_gpt.seed": seed}, effect=effect, seed_effect=luck, **more)
