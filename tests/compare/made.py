"""Results that no DVC has made: for what only reads them.

Settings and seeds have the effects on the score of every character that are asked for.
"""

import json
from dataclasses import replace

import numpy as np

from bukva.compare.results import Result
from bukva.core.params import flatten
from bukva.project.lock import StageRecord
from bukva.project.revisions import Revision
from bukva.scoring.char_scores import files_of, save_scores
from bukva.text.collection import Work

MODELS = "gpt", "bigram"
POINT = {"step": 1000, "chars_seen": 1_024_000, "val_nats_per_char": 1.8}
NUMERICS = {"torch": "2.13.0", "threads": "1", "arithmetic": "01234567"}
ABOUT = {
    "window": {"length": 64, "stride": 32, "context": "own work"},
    "alphabet": "abc",
    "text": {"val": "1" * 64, "test": "2" * 64},
}
PARAMS = {
    "download": {"corpus": "sample"},
    "tokenize": {"kind": "char", "vocab_size": 257},
    "split": {"test": 0.05},
    "compute": {"device": "cpu", "threads": 1},
    "model": {"n_head": 4},
    "train_bigram": {"seed": 1337, "learning_rate": 0.1},
    "train_gpt": {"seed": 1337, "optimizer": "muon", "processes": 1},
    "sample": {"seed": 1337},
}
N_WORKS, CHARS = 13, 101
WORKS = [Work("prose", "abc"[work % 3], f"work {work}") for work in range(N_WORKS)]


def result(folder, name, changes=(), about=(), numerics=NUMERICS, digests=(), parameters=7, val=2.5, test=2.6):
    """A result whose parameters have `changes` (dotted), whose stages have `digests` of files."""
    params = {section: dict(values) for section, values in PARAMS.items()}
    for key, value in dict(changes).items():
        section, _, key = key.partition(".")
        params[section][key] = value
    folder = folder / name
    folder.mkdir(parents=True)
    facts = {"numerics": numerics, "parameters": parameters}
    said = ABOUT | dict(about) | {"models": dict.fromkeys(MODELS, facts)}
    (folder / "about.json").write_text(json.dumps(said), encoding="utf-8")
    return Result(
        Revision(name, name * 40, "b" * 40, name),
        params,
        lock(params, dict(digests)),
        metrics={model: {"val": val, "test": test} for model in MODELS},
        curves={model: [POINT] for model in MODELS},
        scores={"about.json": folder / "about.json", "gpt/val.npy": folder, "bigram/val.npy": folder},
    )


def lock(params, digests):
    """dvc.lock of five stages."""

    def entry(sections, deps, outs):
        values = flatten({section: params[section] for section in sections})
        known = {"books": "1", "code.py": "2", "data/split": f"made of {params['split']}"} | digests
        return StageRecord(values, {path: known.get(path, "made") for path in deps}, dict.fromkeys(outs, "made"))

    return {
        "split": entry(["split"], ["books", "split.py"], ["data/split"]),
        "train-bigram": entry(["train_bigram"], ["data/split", "bigram.py"], ["data/bigram"]),
        "train-gpt": entry(["model", "train_gpt"], ["data/split", "code.py"], ["data/gpt"]),
        "evaluate": entry([], ["data/gpt", "data/bigram", "evaluate.py", "src/bukva/scoring"], ["data/scores"]),
        "sample": entry(["sample"], ["data/gpt"], ["samples.md"]),
    }


def scored(folder, name, changes=(), effect=0.0, seed_effect=0.0, **more):
    """A result whose models have `effect` more bits per character on every work, and `seed_effect` more still.

    Works differ, and effects differ between works a little.
    """
    made = result(folder, name, changes, **more)
    rng = np.random.default_rng(1)
    base = rng.normal(2.5, 0.2, N_WORKS) + effect * rng.normal(1, 0.1, N_WORKS) + seed_effect
    if effect:
        base += np.random.default_rng(2).normal(0, 0.002, N_WORKS)
    nats = {
        split: (np.repeat(base, CHARS) * np.log(2) * (1 + 0.01 * (split == "test"))).astype(np.float32)
        for split in made.about["text"]
    }
    target = folder / f"scores-{name}"
    save_scores(target, made.about, WORKS, dict.fromkeys(nats, np.full(N_WORKS, CHARS)), dict.fromkeys(MODELS, nats))
    bits = {split: float(values.mean(dtype=np.float64) / np.log(2)) for split, values in nats.items()}
    return replace(made, scores=files_of(target), metrics=dict.fromkeys(MODELS, bits))


def seeds_of(known, name, seeds, changes=(), effect=0.0, sd=0.005, **more):
    """A training of one setting for each seed, whose luck has a standard deviation of about `sd`."""
    for seed in seeds:
        luck = np.random.default_rng(seed).normal(0, sd)
        known(f"{name}{seed}", {**dict(changes), "train_gpt.seed": seed}, effect=effect, seed_effect=luck, **more)
