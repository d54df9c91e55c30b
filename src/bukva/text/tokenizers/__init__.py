"""Tokenizers: text to ids and back.

A tokenizer is a module with a class that implements Tokenizer of base.py, and a line in TOKENIZERS, whose keys
are the valid values of tokenize.kind.
"""

import importlib
from pathlib import Path
from typing import cast

from bukva.core.errors import BukvaError
from bukva.core.files import read_json, write_json
from bukva.text.tokenizers.base import Tokenizer

# name -> module and class, imported when chosen
TOKENIZERS = {
    "char": "bukva.text.tokenizers.char:CharTokenizer",
    "byte": "bukva.text.tokenizers.byte:ByteTokenizer",
    "bpe": "bukva.text.tokenizers.bpe:BPETokenizer",
}
VOCAB = "vocab.json"  # in the folder of the ids, and in that of each model
DEFAULT_KIND = "char"  # of a vocab.json without a kind


def tokenizer_class(kind: str) -> type[Tokenizer]:
    """The class of a kind of tokenizer."""
    module, name = TOKENIZERS[kind].split(":")
    return cast("type[Tokenizer]", getattr(importlib.import_module(module), name))


def save_tokenizer(folder: Path, tokenizer: Tokenizer) -> None:
    """Write vocab.json of a folder."""
    write_json(folder / VOCAB, tokenizer.to_json())


def load_tokenizer(folder: Path) -> Tokenizer:
    """Read vocab.json of a folder.

    Raises:
        BukvaError: the file is not a vocabulary.
    """
    try:
        content = read_json(folder / VOCAB)
        if not isinstance(content, dict):
            raise TypeError("it is not a JSON object")
        return tokenizer_class(content.get("kind", DEFAULT_KIND)).from_json(content)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BukvaError(f"{folder / VOCAB}: not a vocabulary ({error}); rerun stage tokenize.") from None
