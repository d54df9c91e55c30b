"""The stages of a fake project: they write files of the shape of the real ones, in no time.

python fake.py STAGE. A model of 13 layers fails, and a model of 9 layers is much better.
"""

import hashlib
import json
import sys
from pathlib import Path

import numpy as np
from ruamel.yaml import YAML

from bukva.core.machine import n_cores

CHARS = {"val": 53, "test": 67}


def write(path, text):
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(text, encoding="utf-8")


def split(params):
    text = Path("data/sample/a.txt").read_text(encoding="utf-8")
    write("data/split/all.txt", f"{text} {params['split']}")


def train_gpt(params):
    if params["model"]["n_layer"] == 13:
        sys.exit("params.yaml, model.n_layer: 13 is unlucky.")
    write("data/models/gpt/config.json", json.dumps([params["model"], params["train_gpt"], params["compute"]]))
    write(
        "reports/curves/train_gpt.csv",
        "step,chars_seen,train_nats_per_char,val_nats_per_char,learning_rate\n"
        f"0,0,,4.3,0.0\n{params['train_gpt']['n_steps']},1024000,1.6,1.8,0.0\n",
    )


def evaluate(params):
    stride = int(Path("score.py").read_text(encoding="utf-8"))
    rng = np.random.default_rng(params["train_gpt"]["seed"])
    text = hashlib.sha256(Path("data/split/all.txt").read_bytes()).hexdigest()
    threads = str(params["compute"]["threads"] or n_cores())
    numerics = {"torch": "2.13.0", "numpy": "2.4.6", "threads": threads, "arithmetic": "01234567"}
    about = {
        "window": {"length": 64, "stride": stride, "context": "own work"},
        "alphabet": "abc",
        "text": dict.fromkeys(CHARS, text),
        "models": {"gpt": {"parameters": 7, "numerics": numerics}},
    }
    write("data/scores/about.json", json.dumps(about))
    write("data/scores/works.csv", f"category,author,work,year,val,test\np,a,w,,{CHARS['val']},{CHARS['test']}\n")
    Path("data/scores/gpt").mkdir()
    metrics = {}
    for name, n in CHARS.items():
        nats = rng.random(n, dtype=np.float32) / (10 if params["model"]["n_layer"] == 9 else 1)
        np.save(f"data/scores/gpt/{name}.npy", nats)
        metrics[name] = float(nats.mean() / np.log(2))
    write("reports/metrics.json", json.dumps({"gpt": metrics}))
    write("reports/scores.json", "{}")


if __name__ == "__main__":
    globals()[sys.argv[1]](YAML(typ="safe").load(Path("params.yaml").read_text(encoding="utf-8")))
