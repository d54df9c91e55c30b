"""A trained model on disk, in a folder that is complete without any other file; nothing in it is ever unpickled.

config.json             which model, its shape, and the digest of its vocabulary
vocab.json              the characters behind the ids
best.safetensors        the weights with the best val score, and the digest of config.json
initial.safetensors     the weights before the first update
train.npy               for a model that counts: the ids of train, which it counts again when it is loaded
exact.safetensors       bigram only: how often each character follows each, on train
numerics.json           the arithmetic that trained it: versions, processor, precision, threads
"""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save

from bukva.core.errors import BukvaError
from bukva.core.files import atomic_folder, read_json, sha256, write_json
from bukva.models.base import Config, LanguageModel, Tensors, first_mismatch
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
    folder: Path, weights: Literal["best", "initial"] = "best", device: torch.device = CPU
) -> tuple[LanguageModel, Tokenizer]:
    """The model with the named weights, on a device, in evaluation mode, and its tokenizer.

    Raises:
        BukvaError: config, vocabulary and tensors do not fit each other; names which.
    """
    tokenizer = load_tokenizer(folder)
    config, digest, counted = _load_config(folder / CONFIG)
    if len(tokenizer) != config.vocab_size:
        raise BukvaError(
            f"{folder}: {VOCAB} has {len(tokenizer)} characters, but config.json has {config.vocab_size}; {REMEDY}"
        )
    if digest != sha256(folder / VOCAB):
        raise BukvaError(f"{folder}: {VOCAB} holds other characters than those the model was trained on; {REMEDY}")
    tensors = _load_tensors(folder / f"{weights}.safetensors", config, sha256(folder / CONFIG))
    model = build(config)  # after the check: a config may claim any size
    model.load_state_dict(tensors)
    if model.counts:
        model.count(_load_counted(folder / COUNTED, counted))
    return model.to(device).eval(), tokenizer


def load_weights(model: LanguageModel, folder: Path, weights: Literal["best", "initial"]) -> None:
    """Give a model that was loaded from this folder the named weights; what it has counted stays.

    Raises:
        BukvaError: the tensors do not fit it.
    """
    model.load_state_dict(_load_tensors(folder / f"{weights}.safetensors", model.config, sha256(folder / CONFIG)))


def _load_counted(path: Path, digest: str) -> Ids:
    """The ids of train that a model counts."""
    try:
        found = sha256(path)
    except OSError as error:
        raise BukvaError(f"{path}: not readable ({error}); {REMEDY}") from None
    if found != digest:  # before it is read as an array, which a damaged file is not
        raise BukvaError(f"{path}: is not the text that the model beside it has counted; {REMEDY}")
    try:
        ids: Ids = np.load(path, mmap_mode="r")
    except (OSError, ValueError) as error:  # a folder of a stranger, whose digests may fit each other
        raise BukvaError(f"{path}: not an array of ids ({error}); {REMEDY}") from None
    return ids


def read_numerics(folder: Path) -> dict[str, str]:
    """The arithmetic that trained the model of a folder (bukva.models.device.Machine.numerics).

    Raises:
        BukvaError: it cannot be read.
    """
    try:
        return dict(read_json(folder / NUMERICS))
    except (OSError, ValueError, TypeError) as error:
        raise BukvaError(f"{folder / NUMERICS}: not readable ({error}); {REMEDY}") from None


def _load_config(path: Path) -> tuple[Config, str, str]:
    """The shape, and the digests of the vocabulary and of the counted text; "" where nothing is counted."""
    try:
        values = read_json(path)
        digest, counted = values.pop("vocab_sha256"), values.pop("train_sha256", "")
        return kind_of(values.pop("model")).config(**values), digest, counted
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise BukvaError(f"{path}: not the shape of a model ({error}); {REMEDY}") from None


def _load_tensors(path: Path, config: Config, config_digest: str) -> Tensors:
    """The tensors of a file, after a check that a model of this shape has them."""
    try:
        with safe_open(path, framework="pt") as file:
            trained_with = (file.metadata() or {}).get("config_sha256")
        tensors = load_file(path)
    except (OSError, SafetensorError) as error:
        raise BukvaError(f"{path}: not readable as tensors ({' '.join(str(error).split())}); {REMEDY}") from None
    if mismatch := _mismatch(tensors, config):
        raise BukvaError(f"{path}: does not fit config.json beside it: {mismatch}; {REMEDY}")
    if trained_with != config_digest:  # heads or activation may differ in tensors of the same shapes
        raise BukvaError(f"{path}: was not trained with the config.json beside it; {REMEDY}")
    return tensors


def _mismatch(tensors: Tensors, config: Config) -> str:
    """Why these tensors are not the weights of a model of this shape; empty if they are."""
    if mismatch := first_mismatch(tensors, build_empty(config).state_dict()):
        return mismatch
    tied = getattr(config, "tie_weights", False)
    if tied and not torch.equal(tensors["wte.weight"], tensors["lm_head.weight"]):
        return "wte.weight and lm_head.weight are tied and differ"
    return ""


def load_models(folders: Mapping[str, Path], device: torch.device = CPU) -> tuple[dict[str, LanguageModel], Tokenizer]:
    """The models of these folders by name, with their best weights, and the tokenizer that they share.

    Raises:
        BukvaError: a folder cannot be read, or two models have different vocabularies.
    """
    loaded = {name: load_model(folder, "best", device) for name, folder in folders.items()}
    (first, (_, tokenizer)), *others = loaded.items()
    for name, (_, other) in others:
        if other.to_json() != tokenizer.to_json():
            raise BukvaError(f"{folders[name]}: its vocabulary is not that of {folders[first]}; {REMEDY}")
    return {name: model for name, (model, _) in loaded.items()}, tokenizer
