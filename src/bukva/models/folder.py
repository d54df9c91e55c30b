"""Save and load trained models.

A saved model is a folder. Loading does not use pickle, so a file cannot run code. The files are:

config.json             name, sizes and options of the model, and the SHA-256 of vocab.json and of train.npy
vocab.json              the vocabulary
best.safetensors        the weights with the best score on `val`, and the SHA-256 of config.json
initial.safetensors     the weights before the first update, and the SHA-256 of config.json
train.npy               ids of the training split, from which loading counts the n-grams; only for models with n-grams
numerics.json           what affected the rounding in training: versions, processor, precision, number of threads
"""

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save

from bukva.core.errors import BukvaError
from bukva.core.files import atomic_folder, read_json, sha256, write_json
from bukva.models.base import Config, LanguageModel, Tensors
from bukva.models.registry import MODELS, build, build_empty
from bukva.text.ids import Ids
from bukva.text.tokenizers import VOCAB, Tokenizer, load_tokenizer, save_tokenizer

CPU = torch.device("cpu")
CONFIG, NUMERICS, COUNTED = "config.json", "numerics.json", "train.npy"
REMEDY = "Rerun the training stage."


def save_model(
    folder: Path,
    config: Config,
    tokenizer: Tokenizer,
    weights: dict[str, Tensors],
    numerics: Mapping[str, str] | None = None,
    counted: Ids | None = None,
) -> None:
    """Write a model to a folder, which is replaced if it exists. The folder appears only when it is complete.

    `weights` has the tensors of each set of weights, such as `best`. `counted` are the ids of the training split for a
    model with n-grams.
    """
    with atomic_folder(folder) as unfinished:
        save_tokenizer(unfinished, tokenizer)
        digest = sha256(unfinished / VOCAB)
        write_json(unfinished / NUMERICS, dict(numerics or {}))
        shape = {"model": config.name, **dataclasses.asdict(config), "vocab_sha256": digest}
        if counted is not None:
            np.save(unfinished / COUNTED, counted)
            shape["train_sha256"] = sha256(unfinished / COUNTED)
        write_json(unfinished / CONFIG, shape)
        metadata = {"config_sha256": sha256(unfinished / CONFIG)}
        for name, tensors in weights.items():
            # safetensors cannot save tensors that share memory, as tied weights do
            own = {key: tensor.clone() for key, tensor in tensors.items()}
            (unfinished / f"{name}.safetensors").write_bytes(save(own, metadata))


def load_model(
    folder: Path,
    weights: Literal["best", "initial"] = "best",
    device: torch.device = CPU,
    ngrams: Path | None = None,
) -> tuple[LanguageModel, Tokenizer]:
    """Load a model, in evaluation mode, and its tokenizer.

    `ngrams` is a folder that may have saved n-gram counts of the training split, for a model with n-grams.

    Raises:
        BukvaError: a file cannot be read or does not match the other files of the folder. The message names the file.
    """
    tokenizer = load_tokenizer(folder)
    with _explain_errors(f"load the model's config from {folder / CONFIG}"):
        values = read_json(folder / CONFIG)
        vocab_digest, train_digest = values.pop("vocab_sha256"), values.pop("train_sha256", "")
        config = MODELS[values.pop("model")](**values)
    if sha256(folder / VOCAB) != vocab_digest:
        raise BukvaError(f"{folder / VOCAB} is not the vocabulary that the model was trained with. {REMEDY}")
    file = folder / f"{weights}.safetensors"
    with _explain_errors(f"load the weights from {file}"):
        with safe_open(file, framework="pt") as opened:
            if (opened.metadata() or {}).get("config_sha256") != sha256(folder / CONFIG):
                raise ValueError("the weights were trained with a different config.json")
        tensors = load_file(file)
        build_empty(config).load_state_dict(tensors, assign=True)  # finds a wrong config before memory is allocated
        model = build(config)
        model.load_state_dict(tensors)
    if model.ngrams:
        with _explain_errors(f"load the training split from {folder / COUNTED}"):
            if sha256(folder / COUNTED) != train_digest:
                raise ValueError("the SHA-256 of the file differs from the one in config.json")
            train = np.load(folder / COUNTED, mmap_mode="r")
        model.ngrams.count(train, ngrams)
    return model.to(device).eval(), tokenizer


def load_models(
    folders: Mapping[str, Path], device: torch.device = CPU, ngrams: Path | None = None
) -> tuple[dict[str, LanguageModel], Tokenizer]:
    """Load several models with their best weights, by name, and their common tokenizer (see `load_model`)."""
    loaded = {name: load_model(folder, "best", device, ngrams) for name, folder in folders.items()}
    (first, (_, tokenizer)), *others = loaded.items()
    for name, (_, other) in others:
        if other.to_json() != tokenizer.to_json():
            raise BukvaError(f"{folders[name]} and {folders[first]} have different vocabularies. {REMEDY}")
    return {name: model for name, (model, _) in loaded.items()}, tokenizer


def read_numerics(folder: Path) -> dict[str, str]:
    """Return what affected the rounding when the model in `folder` was trained (see Machine.numerics)."""
    with _explain_errors(f"read {folder / NUMERICS}"):
        return dict(read_json(folder / NUMERICS))


@contextlib.contextmanager
def _explain_errors(action: str) -> Iterator[None]:
    """Turn an error in the `with` block into a BukvaError in one line. `action` says what failed."""
    try:
        yield
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RuntimeError, SafetensorError) as error:
        raise BukvaError(f"Cannot {action}: {' '.join(str(error).split()).rstrip('.')}. {REMEDY}") from None
