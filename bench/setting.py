"""The model and the parameters that the rows of models measure with."""

from typing import Any

from bench.measure import ROOT

VOCAB_SIZE = 65  # of tinyshakespeare
BATCH_SIZE = 64
SHAPE: dict[str, Any] = {"n_layer": 6, "n_head": 6, "n_embd": 384, "block_size": 256, "dropout": 0.2}
MODEL: dict[str, Any] = {**SHAPE, "ngrams": "none"}  # the plain side counts no n-grams


def params(changes: dict[str, dict[str, Any]], seed: int = 1) -> Any:
    """params.yaml with changes by section, and with scorings at the end only."""
    from bukva.config.load import parse_params, read_yaml

    raw = read_yaml(ROOT / "params.yaml")
    for section, values in changes.items():
        raw[section].update(values)
    raw["train_gpt"].update(seed=seed, eval_every=raw["train_gpt"]["n_steps"])
    return parse_params(raw, "bench")


def config(model: Any) -> Any:
    """The shape of a GPT for section model."""
    from bukva.models.gpt import GPTConfig

    return GPTConfig(vocab_size=VOCAB_SIZE, **model.model_dump())


def use_all_cores() -> None:
    """Give the plain side as many threads as bukva uses."""
    import os

    import torch

    torch.set_num_threads(os.cpu_count() or 1)
