"""A trained model on disk: whoever has the folder needs nothing else, and nothing in it is ever unpickled.

config.json             which model, its shape, and the digest of its vocabulary
vocab.json              the characters behind the ids
best.safetensors        the weights with the best val score, and the digest of config.json
initial.safetensors     the weights before the first update
exact.safetensors       bigram only: how often each character follows each, on train
"""

import dataclasses
import hashlib
from pathlib import Path
from typing import Literal

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save
from torch import Tensor

from bukva.errors import BukvaError
from bukva.files import atomic_folder, read_json, write_json
from bukva.models.bigram import Bigram, BigramConfig
from bukva.models.gpt import GPT, GPTConfig
from bukva.text.tokenizers import CharTokenizer

Model = Bigram | GPT
Config = BigramConfig | GPTConfig
Tensors = dict[str, Tensor]

CPU = torch.device("cpu")
REMEDY = "rerun the training stage."
CONFIGS: dict[str, type[BigramConfig] | type[GPTConfig]] = {"bigram": BigramConfig, "gpt": GPTConfig}


def build(config: Config) -> Model:
    """A model of this shape, freshly initialised from torch's global generator."""
    return Bigram(config) if isinstance(config, BigramConfig) else GPT(config)


def save_model(folder: Path, config: Config, tokenizer: CharTokenizer, weights: dict[str, Tensors]) -> None:
    """Write the folder in one step; `weights` are named best, initial and so on."""
    kind = next(name for name, type_ in CONFIGS.items() if isinstance(config, type_))
    with atomic_folder(folder) as part:
        tokenizer.save(part / "vocab.json")
        shape = {"model": kind, **dataclasses.asdict(config), "vocab_sha256": _digest(part / "vocab.json")}
        write_json(part / "config.json", shape)
        for name, tensors in weights.items():
            # the format has no two names for one memory, which tied weights are
            own = {key: tensor.clone() for key, tensor in tensors.items()}
            metadata = {"config_sha256": _digest(part / "config.json")}
            (part / f"{name}.safetensors").write_bytes(save(own, metadata))


def load_model(
    folder: Path, weights: Literal["best", "initial"] = "best", device: torch.device = CPU
) -> tuple[Model, CharTokenizer]:
    """The model with the named weights, on a device, in evaluation mode, and its tokenizer.

    Raises:
        BukvaError: config, vocabulary and tensors do not fit each other; names which.
    """
    tokenizer = CharTokenizer.load(folder / "vocab.json")
    config, digest = _load_config(folder / "config.json")
    if len(tokenizer) != config.vocab_size:
        raise BukvaError(
            f"{folder}: vocab.json has {len(tokenizer)} characters, config.json says {config.vocab_size}; {REMEDY}"
        )
    if digest != _digest(folder / "vocab.json"):
        raise BukvaError(f"{folder}: vocab.json holds other characters than those the model has learned; {REMEDY}")
    tensors = _load_tensors(folder / f"{weights}.safetensors", config, _digest(folder / "config.json"))
    model = build(config)
    model.load_state_dict(tensors)
    return model.to(device).eval(), tokenizer


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _load_config(path: Path) -> tuple[Config, str]:
    try:
        values = read_json(path)
        digest = values.pop("vocab_sha256")
        return CONFIGS[values.pop("model")](**values), digest
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise BukvaError(f"{path}: not the shape of a model ({error}); {REMEDY}") from None


def _load_tensors(path: Path, config: Config, config_digest: str) -> Tensors:
    """The tensors of a file, once they are known to be those that a model of this shape has."""
    try:
        with safe_open(path, framework="pt") as file:
            learned_with = (file.metadata() or {}).get("config_sha256")
        tensors = load_file(path)
    except (OSError, SafetensorError) as error:
        raise BukvaError(f"{path}: not readable as tensors ({' '.join(str(error).split())}); {REMEDY}") from None
    if misfit := _misfit(tensors, config):
        raise BukvaError(f"{path}: does not fit config.json beside it: {misfit}; {REMEDY}")
    if learned_with != config_digest:  # heads or activation may differ in tensors of the same shapes
        raise BukvaError(f"{path}: was not learned with the config.json beside it; {REMEDY}")
    return tensors


def _misfit(tensors: Tensors, config: Config) -> str | None:
    """What keeps these tensors from being the weights of a model of this shape."""
    with torch.device("meta"):  # shapes without memory: a config may claim any size
        wanted = build(config).state_dict()
    for name in sorted(wanted.keys() | tensors.keys()):
        found, fitting = _describe(tensors.get(name)), _describe(wanted.get(name))
        if found != fitting:
            return f"{name} is {found}, not {fitting}"
    tied = isinstance(config, GPTConfig) and config.tie_weights
    if tied and not torch.equal(tensors["wte.weight"], tensors["lm_head.weight"]):
        return "wte.weight and lm_head.weight are tied and differ"
    return None


def _describe(tensor: Tensor | None) -> str:
    return "absent" if tensor is None else f"{tensor.dtype} {tuple(tensor.shape)}".removeprefix("torch.")
