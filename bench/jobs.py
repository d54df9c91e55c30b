"""Jobs of the rows: `python -m bench.jobs NAME ARGUMENTS` runs one in its own process, with the arguments as JSON.

The last line of output is JSON: the values of the job, or {"error": message} for a mistake in the input. A job imports
what it measures before its clock starts.
"""

import json
import math
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.measure import params_with, timer
from bukva.core.errors import BukvaError
from bukva.core.machine import prepare_torch
from bukva.text.collection import TEXT

Changes = dict[str, dict[str, Any]]  # changes of params.yaml, by section

VOCAB_SIZE = 65  # of tinyshakespeare
N_CHARS = 1000  # generated characters
ORDER = 8  # length of the longest n-grams that are counted
BABY: Changes = {
    "model": {"n_layer": 6, "n_head": 6, "n_embd": 384, "block_size": 256, "dropout": 0.2},
    "train_gpt": {"batch_size": 64, "micro_batches": 8},
}
# changes of params.yaml, each with just enough updates to reach the loss of nanoGPT's recipe for a CPU
RECIPES: dict[str, Changes] = {
    "network": {
        "model": {"block_size": 64, "n_layer": 1, "ngrams": "none", "short_convolution": True},
        "train_gpt": {"n_steps": 170, "batch_size": 24, "learning_rate": 0.012, "warmup_steps": 10},
    },
    "ngrams": {
        "model": {"block_size": 64, "n_layer": 1, "n_embd": 64, "ngrams": "input", "ngram_orders": [3, 5]},
        "train_gpt": {"n_steps": 6, "batch_size": 24, "warmup_steps": 1},
    },
}

# ---- training


def _race(recipe: str, seed: int, raw: str) -> dict[str, Any]:
    """Train, and score val once at the end."""
    from bukva.backends.device import prepare
    from bukva.core.params import parse_params
    from bukva.models.gpt import GPTConfig
    from bukva.models.registry import build
    from bukva.training.run import Task, run_training, start
    from bukva.training.state import Progress
    from bukva.training.windows import Windows

    changes, (train, val) = RECIPES[recipe], load_ids(raw)
    training = changes["train_gpt"] | {"seed": seed, "eval_every": changes["train_gpt"]["n_steps"]}
    values = parse_params(params_with(changes | {"train_gpt": training}), "bench")
    shape, hyper = GPTConfig(vocab_size=VOCAB_SIZE, **values.model.model_dump()), values.train_gpt
    windows = Windows(train, shape.block_size, hyper.batch_size, hyper.order, hyper.seed)
    task = Task(lambda: build(shape), windows, lambda model, _: score(model, val), hyper, prepare(values.compute))
    state = start(task)
    # an entry for the untrained model skips the scoring before the training
    state.curve.append(Progress(0, 0, 0.0, val_nats_per_char=math.log(VOCAB_SIZE)))
    run_training(task, state)
    return {"nats": state.best_val}


def _race_plain(seed: int, raw: str) -> dict[str, Any]:
    """Train with nanoGPT's recipe for a CPU, including its loss estimates during the training."""
    from bench.plain.gpt import PlainTraining, Recipe, Shape

    training = PlainTraining(Shape(VOCAB_SIZE), Recipe(), *load_ids(raw), seed)
    for step in range(training.recipe.n_steps):
        if step % training.recipe.eval_every == 0:
            training.estimate()
        training.update(step)
    return {"nats": training.estimate()["val"]}


def load_ids(raw: str) -> tuple[Any, Any]:
    """Return the ids of the first nine tenths of the text, and the ids of the rest."""
    from bukva.text.tokenizers import CharTokenizer

    text = (Path(raw) / TEXT).read_text(encoding="utf-8")
    ids = CharTokenizer.train([text]).encode(text)
    n_train = int(0.9 * len(ids))
    return ids[:n_train], ids[n_train:]


def score(model: Any, ids: Any) -> float:
    """Return the loss on (N,) ids in nats per character, in adjacent windows. N-grams also see the text before."""
    from bukva.scoring.window_rule import Score, nats_of

    return Score.of(nats_of(model, ids, model.block_size, model.block_size), len(ids) - 1).nats_per_char


def _updates_plain(split: str, shape: dict[str, Any], batch_size: int, n: int) -> dict[str, Any]:
    """Return the milliseconds of an update of the plain loop, after one warm-up update."""
    from bench.plain.gpt import PlainTraining, Recipe, Shape
    from bukva.text.ids import load_splits

    ids = load_splits(Path(split))["train"]
    training = PlainTraining(Shape(**shape), Recipe(batch_size=batch_size), ids, ids, seed=1)
    training.update(0)
    started_at = timer()
    for step in range(1, n + 1):
        training.update(step)
    return {"ms": 1000 * (timer() - started_at) / n}


# ---- generation


def _generate() -> dict[str, Any]:
    import torch

    from bukva.backends.device import generation_device, prepare
    from bukva.core.params import parse_params
    from bukva.evaluation.sampling import generate
    from bukva.models.gpt import GPTConfig
    from bukva.models.registry import build

    values = parse_params(params_with({"model": {**BABY["model"], "ngrams": "none"}}), "bench")
    machine = prepare(values.compute)
    model = build(GPTConfig(vocab_size=VOCAB_SIZE, **values.model.model_dump())).eval()
    model.to(device := generation_device(model, machine))
    rng, prompt = torch.Generator().manual_seed(1), torch.zeros(1, 1, dtype=torch.int64, device=device)
    return _timed(lambda n: generate(model, prompt, n, temperature=1.0, top_k=0, top_p=1.0, rng=rng))


def _generate_plain() -> dict[str, Any]:
    import torch

    from bench.plain.gpt import PlainGPT, Shape, generate

    model = PlainGPT(Shape(VOCAB_SIZE, **BABY["model"]))
    prompt = torch.zeros(1, 1, dtype=torch.int64)
    return _timed(lambda n: generate(model, prompt, n))


def _timed(generate: Callable[[int], Any]) -> dict[str, Any]:
    """Return the speed of generating N_CHARS characters, after a short warm-up."""
    generate(2)
    started_at = timer()
    generate(N_CHARS)
    return {"chars_per_second": N_CHARS / (timer() - started_at)}


# ---- text


def _download(corpus: str, raw: str) -> dict[str, Any]:
    from bukva.core.schema import Download
    from bukva.corpus.sources.download import download

    params = Download.model_validate(params_with({"download": {"corpus": corpus}})["download"])
    download(params, Path(raw), lambda *_: None, lambda *_: None)
    return {}


def _clean(raw: str, clean: str) -> dict[str, Any]:
    from bukva.corpus.cleaning.clean import clean_collection
    from bukva.corpus.cleaning.rule_sets import rule_set

    clean_collection(Path(raw), Path(clean), rule_set("notes"), "as the bench says")
    return {}


def _count(clean: str) -> dict[str, Any]:
    from bukva.models.ngrams.kneser_ney import KneserNey
    from bukva.text.collection import TEXT
    from bukva.text.tokenizers import CharTokenizer

    text = (Path(clean) / TEXT).read_text(encoding="utf-8")
    tokenizer = CharTokenizer.train([text])
    ids = tokenizer.encode(text)[: len(text) * 9 // 10]
    del text
    started_at = time.perf_counter()
    KneserNey.count(ids, len(tokenizer), ORDER)
    return {"seconds": time.perf_counter() - started_at}


JOBS: dict[str, Callable[..., dict[str, Any]]] = {
    "race": _race, "race-plain": _race_plain, "updates-plain": _updates_plain, "generate": _generate,
    "generate-plain": _generate_plain, "download": _download, "clean": _clean, "count": _count,
}  # fmt: skip


if __name__ == "__main__":
    _, name, arguments = sys.argv
    if not name.endswith("-plain"):  # plain code uses torch's defaults
        prepare_torch()  # as every stage does
    try:
        result = JOBS[name](**json.loads(arguments))
    except BukvaError as error:
        result = {"error": str(error)}
    print(json.dumps(result))
