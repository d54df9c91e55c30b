"""A trained model on disk: whoever has the folder needs nothing else, and nothing in it is ever unpickled.

config.json             which model, and its shape
vocab.json              the characters behind the ids
best.safetensors        the weights with the best val score
initial.safetensors     the weights before the first update
exact.safetensors       bigram only: how often each character follows each, on train
"""

import dataclasses
from pathlib import Path
from typing import Literal

from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor, nn

from bukva.errors import BukvaError
from bukva.files import atomic_folder, read_json, write_json
from bukva.models.bigram import Bigram, BigramConfig
from bukva.models.gpt import GPT, GPTConfig
from bukva.text.tokenizers import CharTokenizer

Model = Bigram | GPT
Config = BigramConfig | GPTConfig
Tensors = dict[str, Tensor]

CONFIGS: dict[str, type[BigramConfig] | type[GPTConfig]] = {"bigram": BigramConfig, "gpt": GPTConfig}


def build(config: Config) -> Model:
    """A model of this shape, freshly initialised from torch's global generator."""
    return Bigram(config) if isinstance(config, BigramConfig) else GPT(config)


def save_model(folder: Path, config: Config, tokenizer: CharTokenizer, weights: dict[str, Tensors]) -> None:
    """Write the folder in one step; `weights` are named best, initial and so on."""
    kind = next(name for name, type_ in CONFIGS.items() if isinstance(config, type_))
    with atomic_folder(folder) as part:
        write_json(part / "config.json", {"model": kind, **dataclasses.asdict(config)})
        tokenizer.save(part / "vocab.json")
        for name, tensors in weights.items():
            (part / f"{name}.safetensors").write_bytes(save(tensors))


def load_model(folder: Path, weights: Literal["best", "initial"] = "best") -> tuple[Model, CharTokenizer]:
    """The model with the named weights, in evaluation mode, and its tokenizer.

    Raises:
        BukvaError: config, vocabulary and tensors do not fit each other; names which.
    """
    tokenizer = CharTokenizer.load(folder / "vocab.json")
    model = build(_load_config(folder / "config.json"))
    if len(tokenizer) != model.config.vocab_size:
        raise BukvaError(
            f"{folder}: vocab.json has {len(tokenizer)} characters, config.json says {model.config.vocab_size}; "
            "rerun the training stage."
        )
    _load_weights(model, folder / f"{weights}.safetensors")
    return model.eval(), tokenizer


def _load_config(path: Path) -> Config:
    try:
        values = read_json(path)
        return CONFIGS[values.pop("model")](**values)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise BukvaError(f"{path}: not the shape of a model ({error}); rerun the training stage.") from None


def _load_weights(model: nn.Module, path: Path) -> None:
    try:
        model.load_state_dict(load_file(path))
    except (OSError, SafetensorError, RuntimeError) as error:
        reason = " ".join(str(error).split())
        raise BukvaError(f"{path}: does not fit config.json beside it ({reason}); rerun the training stage.") from None
