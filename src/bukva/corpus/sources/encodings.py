"""Decode files, and detect the encodings of files and file names. A detected encoding fits all bytes."""

import codecs
import contextlib
import io
import re
from collections.abc import Collection, Iterable

from bukva.core.schema import ENCODINGS

# Escape sequence that switches the character set -> encodings that use it. They have only ASCII bytes, so a file of
# valid UTF-8 is searched for these sequences.
ESCAPED = {b"\x1b$": ("iso2022-jp", "iso2022-kr"), b"~}": ("hz",)}
# Characters in UTF-7 up to U+D7FF, such as +BB4-. The minus may be missing, but then only those of alphabets, up to
# U+13FF, are recognized. Other texts rarely have such a word after a plus, and most such words are not valid UTF-7. A
# word that could be English, such as +foo-, says nothing.
UTF7 = re.compile(rb"\+(?![A-Za-z]?[a-z]+\b)([A-Za-z01][A-Za-z0-9+/]{2,}-|[A-E][A-Za-z0-9+/]{2,})")
# Encoding that chardet may detect -> its superset in GUESSED, with which it must be read by the HTML standard.
SUPERSETS = {
    "iso8859-1": "cp1252", "iso8859-9": "cp1254", "tis-620": "cp874", "euc_kr": "cp949",
    "shift_jis_2004": "cp932", "euc_jis_2004": "euc-jp",
}  # fmt: skip
# chardet chooses among the encodings of the HTML standard and the code pages of DOS, but not their subsets.
SUBSETS = ["shift-jis", "euc-kr", "big5"]
RECOGNIZED = ["auto", "utf-8", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "iso2022-jp", "iso2022-kr", "hz"]
GUESSED = [name for name in ENCODINGS if name not in (*RECOGNIZED, *SUBSETS)]

SAMPLE_BYTES = 1 << 15  # chardet uses the first 16 kB
HEAD_BYTES = 1024  # HTML must declare its encoding within the first 1024 bytes

BOMS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF32_LE: "utf-32",  # must precede UTF-16-LE, because this mark begins with the mark of UTF-16-LE
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
BOM, NUL = "\ufeff", "\0"
HAS_NUL = "contains NUL, so it is a binary file or UTF-16 without a byte order mark (utf-16-le or utf-16-be)"


class BadEncodingError(Exception):
    """Error for bytes that cannot be decoded. The message does not name the file."""


def decode(raw: bytes, encoding: str) -> str:
    """Return the text of a file, without the byte order mark at its start.

    An invalid byte or NUL is a BadEncodingError. Real texts never contain NUL, but UTF-16 decoded as UTF-8 does.
    """
    # without a byte order mark, Python would decode UTF-16 and UTF-32 in the byte order of this machine
    if raw and encoding in ("utf-16", "utf-32") and _marked_encoding(raw) != encoding:
        raise BadEncodingError(f"has no byte order mark, with which {encoding.upper()} must begin")
    try:
        text = raw.decode(encoding)
    except UnicodeDecodeError as error:
        why = f"byte {error.start} (0x{error.object[error.start]:02x}) is not {encoding.upper()}"
        raise BadEncodingError(why) from None
    if NUL in text:
        raise BadEncodingError(HAS_NUL)
    return text.removeprefix(BOM)


def _marked_encoding(raw: bytes) -> str:
    """Return the encoding whose byte order mark is at the start of a file, or ""."""
    return next((encoding for mark, encoding in BOMS.items() if raw.startswith(mark)), "")


def detect_encoding(raw: bytes) -> str:
    """Return the encoding of a file, one of ENCODINGS except `auto`. The first rule that applies decides.

    1. A byte order mark at the start gives the encoding.
    2. If all bytes are valid UTF-8, the encoding is UTF-8, unless the file has an escape sequence of ESCAPED and is
       valid in an encoding that uses it. A file that looks like UTF-7 is an error.
    3. If most of the text is valid UTF-8, the file is damaged UTF-8, which is an error.
    4. chardet lists probable encodings. The first of them in which all bytes are valid is returned. If there is none,
       or if the file contains NUL, this is an error (BadEncodingError).
    """
    if encoding := _marked_encoding(raw):
        return encoding
    if NUL.encode() in raw:
        raise BadEncodingError(HAS_NUL)
    try:
        decode(raw, "utf-8")
    except BadEncodingError as error:
        sample = _sample(raw)
        text = sample.decode(errors="replace")
        n_damaged = text.count("\ufffd")
        if sum(not char.isascii() for char in text) > 3 * n_damaged:
            raise BadEncodingError(f"{error}, but the text around it is") from None
        if encoding := guessed_encoding(raw, sample, (*GUESSED, *SUPERSETS)):
            return encoding
        raise BadEncodingError(f"{error}, and no other encoding fits the whole file") from None
    escaped = [name for escape, encodings in ESCAPED.items() if escape in raw for name in encodings]
    if UTF7.search(raw):
        escaped.append("utf-7")
    encoding = _first_valid(raw, escaped) or "utf-8"
    if encoding == "utf-7":
        raise BadEncodingError("looks like UTF-7 (`iconv -f utf-7 -t utf-8` converts it; utf-8 reads it as it is)")
    return encoding


def _sample(raw: bytes) -> bytes:
    """Return the head of a file and its first lines that are not ASCII."""
    file, sample = io.BytesIO(raw), b""
    while len(sample) < SAMPLE_BYTES and (line := file.readline(SAMPLE_BYTES)):
        if len(sample) < HEAD_BYTES or not line.isascii():
            sample += line
    return sample


def guessed_encoding(raw: bytes, sample: bytes, among: Collection[str]) -> str:
    """Return the most probable encoding of a sample, among those in which all bytes of `raw` are valid, or ""."""
    import chardet

    sample = b"\n" + sample  # or chardet would mistake a text that begins with BM or MZ for an image or a program
    matches = chardet.detect_all(sample, include_encodings=among, compat_names=False, ignore_threshold=True)
    names = [name for match in matches if (name := match["encoding"])]
    return _first_valid(raw, (SUPERSETS.get(name, name) for name in names))


def _first_valid(raw: bytes, encodings: Iterable[str]) -> str:
    """Return the first encoding in which all bytes are valid, or ""."""
    for encoding in encodings:
        with contextlib.suppress(BadEncodingError):
            decode(raw, encoding)
            return encoding
    return ""
