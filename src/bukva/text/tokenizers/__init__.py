"""Tokenizers, which convert text to ids and back. The keys of TOKENIZERS are the values of `tokenize.kind`."""

from pathlib import Path

from bukva.core.errors import BukvaError
from bukva.core.files import read_json, write_json
from bukva.text.tokenizers.base import ByteTokenizer, Tokenizer
from bukva.text.tokenizers.bpe import BPETokenizer
from bukva.text.tokenizers.char import CharTokenizer

TOKENIZERS: dict[str, type[Tokenizer]] = {"char": CharTokenizer, "byte": ByteTokenizer, "bpe": BPETokenizer}
VOCAB = "vocab.json"  # file in the folder of the ids, and in the folder of each model


def save_tokenizer(folder: Path, tokenizer: Tokenizer) -> None:
    write_json(folder / VOCAB, tokenizer.to_json())


def load_tokenizer(folder: Path) -> Tokenizer:
    """Read a tokenizer from vocab.json, or raise a BukvaError if the file is missing or is not a vocabulary."""
    try:
        content = read_json(folder / VOCAB)
        kind = TOKENIZERS[content.pop("kind", "char")]
        if not all(isinstance(value, list) for value in content.values()):
            raise TypeError("a value is not a list")
        return kind(**content)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise BukvaError(f"{folder / VOCAB}: this file is not a vocabulary ({error}); rerun stage tokenize.") from None
