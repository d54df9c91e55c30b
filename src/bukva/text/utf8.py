"""UTF-8 as arrays of code points and back, twice as fast as by way of str, and without the lock of the interpreter.

Characters of one byte and of two are decoded without branches, because no processor foresees where a word ends. What is
rare is left to Python: text with characters of four bytes, and what is not UTF-8.
"""

import functools
import sys
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from bukva.core.compiled import compiled
from bukva.text.characters import Codes, code_points, from_code_points

Bytes = npt.NDArray[np.uint8]
WRONG = 1 << 16  # no code point of at most three bytes


def decoded(utf8: bytes) -> Codes:
    """UTF-8 of n characters -> (n,) code points; raises UnicodeDecodeError where bytes.decode does."""
    codes = np.empty(len(utf8), np.uint16)
    n = _decode(np.frombuffer(utf8, np.uint8), _pairs(), codes)
    if n < 0:
        return code_points(utf8.decode())
    codes.resize(n, refcheck=False)  # gives back the memory of the rest
    return codes


def encoded(codes: Codes) -> bytes:
    """(n,) code points -> UTF-8 of n characters."""
    if codes.itemsize > 2:
        return from_code_points(codes).encode()
    utf8 = np.empty(3 * len(codes), np.uint8)
    return utf8[: _encode(codes, utf8)].tobytes()


def alphabet(texts: Iterable[Codes]) -> str:
    """The characters of texts, sorted, each once."""
    seen = np.zeros(sys.maxunicode + 1, np.bool_)  # by code point
    for codes in texts:
        _mark(codes, seen)
    return from_code_points(np.flatnonzero(seen).astype(np.uint32))


@functools.cache
def _pairs() -> Codes:
    """(2**16,) the code point that a pair of bytes ends with; WRONG where the second byte cannot follow the first."""
    first, second = np.divmod(np.arange(2**16, dtype=np.uint32), 256)
    continues = second & 0xC0 == 0x80
    is_wrong = (continues != (first >= 0xC0)) | (second & 0xFE == 0xC0)  # what begins with C0 or C1 has a shorter form
    return np.where(is_wrong, WRONG, np.where(continues, (first & 0x1F) << 6 | second & 0x3F, second)).astype(np.uint32)


@compiled
def _decode(utf8: Bytes, pairs: Codes, codes: Codes) -> np.int64:
    """Write the code points; returns how many, or -1 if some have four bytes or the bytes are not UTF-8."""
    n, start, before, seen = np.uint64(0), 0, 0, 0  # a place without a sign is found faster
    while True:
        for byte in utf8[start:]:
            if byte >= 0xE0:
                break
            code = pairs[before << 8 | byte]
            codes[n] = code  # the second byte of two overwrites what the first one has written
            n += np.uint64(byte < 0xC0)
            seen |= code
            before = byte
            start += 1
        is_wrong = before >= 0xC0 or seen >= WRONG
        if start == len(utf8):
            return np.int64(-1) if is_wrong else np.int64(n)
        if is_wrong or start + 3 > len(utf8):
            return np.int64(-1)
        first, second, third = utf8[start : start + 3]
        code = (first & 0xF) << 12 | (second & 0x3F) << 6 | third & 0x3F
        follow = second & 0xC0 == third & 0xC0 == 0x80
        if first >= 0xF0 or not follow or code < 0x800 or 0xD800 <= code < 0xE000:  # the last are surrogates
            return np.int64(-1)
        codes[n] = code
        n += np.uint64(1)
        before = 0
        start += 3


@compiled
def _mark(codes: Codes, seen: npt.NDArray[np.bool_]) -> None:
    for code in codes:
        seen[code] = True


@compiled
def _encode(codes: Codes, utf8: Bytes) -> int:
    """Write the bytes, at most three for each of the code points; returns how many."""
    n = 0
    for code in codes:
        if code < 0x800:
            has_two = code >= 0x80
            utf8[n] = 0xC0 | code >> 6 if has_two else code
            utf8[n + 1] = 0x80 | code & 0x3F  # the next character overwrites it if this one has one byte
            n += 1 + has_two
        else:
            utf8[n] = 0xE0 | code >> 12
            utf8[n + 1] = 0x80 | code >> 6 & 0x3F
            utf8[n + 2] = 0x80 | code & 0x3F
            n += 3
    return n
