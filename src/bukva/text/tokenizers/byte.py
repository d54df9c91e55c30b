"""The byte tokenizer: one id per byte of UTF-8, its value."""

from collections.abc import Iterable
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from bukva.text.ids import Ids
from bukva.text.tokenizers.utf8 import Utf8Tokenizer


class ByteTokenizer(Utf8Tokenizer):
    """One id per byte (see bukva.text.tokenizers.base.Tokenizer); there is nothing to learn."""

    unit: ClassVar[str] = "byte"

    def __init__(self) -> None:
        super().__init__([bytes([value]) for value in range(256)])

    @classmethod
    def train(cls, texts: Iterable[str], vocab_size: int) -> "ByteTokenizer":  # noqa: ARG003 (it is the same for all)
        """The tokenizer, whatever the texts."""
        return cls()

    @classmethod
    def from_json(cls, content: dict[str, object]) -> "ByteTokenizer":
        """From `{"kind": "byte"}`.

        Raises:
            ValueError: it is not that.
        """
        if content != {"kind": "byte"}:
            raise ValueError('the byte tokenizer is {"kind": "byte"} and nothing else')
        return cls()

    def to_json(self) -> dict[str, object]:
        """`{"kind": "byte"}`."""
        return {"kind": "byte"}

    def encode(self, text: str) -> Ids:
        """Text -> (n,) ids, the bytes of its UTF-8."""
        return np.frombuffer(text.encode(), np.uint8)

    def utf8(self, ids: npt.ArrayLike) -> bytes:
        """(n,) ids -> n bytes."""
        return np.asarray(ids, np.uint8).tobytes()
