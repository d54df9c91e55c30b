"""The byte tokenizer: one id per byte of UTF-8, so that any text can be encoded."""

from collections.abc import Iterable
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from bukva.text.ids import Ids
from bukva.text.tokenizers.base import Tokenizer

BYTES = [bytes([value]) for value in range(256)]


class ByteTokenizer(Tokenizer):
    """One id per byte, its value; there is nothing to learn."""

    unit: ClassVar[str] = "byte"

    def __init__(self) -> None:
        super().__init__(BYTES)

    @classmethod
    def train(cls, texts: Iterable[str], vocab_size: int) -> "ByteTokenizer":  # noqa: ARG003 (it is the same for all)
        return cls()

    def to_json(self) -> dict[str, Any]:
        return {"kind": "byte"}

    def encode(self, text: str) -> Ids:
        return np.frombuffer(text.encode(), np.uint8)

    def utf8(self, ids: npt.ArrayLike) -> bytes:
        return np.asarray(ids, np.uint8).tobytes()
