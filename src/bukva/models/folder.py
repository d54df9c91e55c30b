"""A trained model on disk, in a folder that is complete without any other file; nothing in it is ever unpickled.

config.json             which model, its shape, and the digest of its vocabulary
vocab.json              the characters behind the ids
best.safetensors        the weights with the best val score, and the digest of config.json
initial.safetensors     the weights before the first update
train.npy               for a model that counts: the ids of train, which it counts again when it is loaded
numerics.json           the arithmetic that trained it: versions, processor, precision, threads
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
from bukva.models.registry import build, build_empty, kind_of
from bukva.text.ids import Ids
from bukva.text.tokenizers import VOCAB, load_tokenizer, save_tokenizer
from bukva.text.tokenizers.base import Tokenizer

CPU = torch.device("cpu")
CONFIG, NUMERICS, COUNTED = "config.json", "numerics.json", "train.npy"
REMEDY = "rerun the training stage."


def save_model(
    folder: Path,
    config: Config,
    tokenizer: Tokenizer,
    weights: dict[str, Tensors],
    numerics: Mapping[str, str] | None = None,
    counted: Ids | None = None,
) -> None:
    """Write the folder in one step.

    Args:
        folder: is replaced.
        config: the shape of the model.
        tokenizer: its vocabulary.
        weights: by name: best, initial and so on.
        numerics: of the training.
        counted: (N,) ids of train, for a model that counts.
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
    """Return the model with the named weights, on a device, in evaluation mode, and its tokenizer.

    Args:
        folder: of the model.
        weights: which of its weights.
        device: of the model.
        ngrams: folder that may hold the counts of train, for a model with n-grams.

    Raises:
        BukvaError: config, vocabulary and tensors do not fit each other; names which.
    """
    tokenizer = load_tokenizer(folder)
    with _read(folder / CONFIG, "not the shape of a model"):
        values = read_json(folder / CONFIG)
        vocab_digest, train_digest = values.pop("vocab_sha256"), values.pop("train_sha256", "")
        config = kind_of(values.pop("model")).config(**values)
    if sha256(folder / VOCAB) != vocab_digest:
        raise BukvaError(f"{folder / VOCAB}: holds other characters than those the model was trained on; {REMEDY}")
    file = folder / f"{weights}.safetensors"
    with _read(file, "not the weights of the config.json beside it"):
        with safe_open(file, framework="pt") as opened:
            if (opened.metadata() or {}).get("config_sha256") != sha256(folder / CONFIG):
                raise ValueError("they were trained with another one")
        tensors = load_file(file)
        build_empty(config).load_state_dict(tensors, assign=True)  # before a config that claims any size takes memory
        model = build(config)
        model.load_state_dict(tensors)
    if model.counts:
        with _read(folder / COUNTED, "not the text that the model beside it has counted"):
            if sha256(folder / COUNTED) != train_digest:
                raise ValueError("another digest")
            train = np.load(folder / COUNTED, mmap_mode="r")
        model.count(train, ngrams)
    return model.to(device).eval(), tokenizer


def load_models(
    folders: Mapping[str, Path], device: torch.device = CPU, ngrams: Path | None = None
) -> tuple[dict[str, LanguageModel], Tokenizer]:
    """Return the models of these folders by name, with their best weights, and the tokenizer that they share.

    Raises:
        BukvaError: a folder cannot be read, or two models have different vocabularies.
    """
    loaded = {name: load_model(folder, "best", device, ngrams) for name, folder in folders.items()}
    (first, (_, tokenizer)), *others = loaded.items()
    for name, (_, other) in others:
        if other.to_json() != tokenizer.to_json():
            raise BukvaError(f"{folders[name]}: its vocabulary is not that of {folders[first]}; {REMEDY}")
    return {name: model for name, (model, _) in loaded.items()}, tokenizer


def read_numerics(folder: Path) -> dict[str, str]:
    """The arithmetic that trained the model of a folder (bukva.backends.device.Machine.numerics).

    Raises:
        BukvaError: it cannot be read.
    """
    with _read(folder / NUMERICS, "not readable"):
        return dict(read_json(folder / NUMERICS))


@contextlib.contextmanager
def _read(path: Path, fault: str) -> Iterator[None]:
    """Turn an error of this block into a sentence about the file."""
    try:
        yield
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RuntimeError, SafetensorError) as error:
        raise BukvaError(f"{path}: {fault} ({' '.join(str(error).split())}); {REMEDY}") from None
