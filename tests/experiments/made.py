"""Results that no DVC has made: for what only reads them."""

import json

from bukva.compare.results import Result
from bukva.core.params import flatten
from bukva.project.lock import StageRecord
from bukva.project.revisions import Revision

MODELS = "gpt", "bigram"
NUMERICS = {"torch": "2.13.0", "arithmetic": "01234567"}
ABOUT = {
    "window": {"length": 64, "stride": 32, "context": "own work"},
    "alphabet": "abc",
    "text": {"val": "1", "test": "2"},
}
PARAMS = {
    "download": {"corpus": "sample"},
    "tokenize": {"kind": "char", "vocab_size": 257},
    "split": {"test": 0.05},
    "model": {"n_head": 4},
    "train_bigram": {"seed": 1337, "learning_rate": 0.1},
    "train_gpt": {"seed": 1337, "optimizer": "muon"},
    "sample": {"seed": 1337},
}


def result(folder, name, changes=(), about=(), numerics=NUMERICS, digests=(), val=2.5, test=2.6):
    """A result whose parameters have `changes` (dotted), whose stages have `digests` of files."""
    params = {section: dict(values) for section, values in PARAMS.items()}
    for key, value in dict(changes).items():
        section, _, key = key.partition(".")
        params[section][key] = value
    folder = folder / name
    folder.mkdir(parents=True)
    said = ABOUT | dict(about) | {"models": {model: {"numerics": numerics} for model in MODELS}}
    (folder / "about.json").write_text(json.dumps(said), encoding="utf-8")
    scores = {"about.json": folder / "about.json", "gpt/val.npy": folder, "bigram/val.npy": folder}
    metrics = {model: {"val": val, "test": test} for model in MODELS}
    return Result(Revision(name, name * 40, "b" * 40), params, lock(params, dict(digests)), metrics, {}, scores, "")


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
        "evaluate": entry([], ["data/gpt", "data/bigram", "evaluate.py"], ["data/scores"]),
        "sample": entry(["sample"], ["data/gpt"], ["samples.md"]),
    }
