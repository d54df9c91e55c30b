"""Decode files, and detect their encodings. A detected encoding is verified on all bytes of the file."""

import codecs
import re
from collections.abc import Callable, Iterator
from typing import IO

from bukva.core.files import PIECE_BYTES

# The encodings are names of Python codecs. DETECTED contains the encodings of the HTML standard and the code pages of
# DOS.
UNICODE = ("utf-8", "utf-16", "utf-16-le", "utf-16-be", "utf-32")
DETECTED = (
    "cp1251", "koi8-r", "koi8-u", "iso8859-5", "mac-cyrillic",
    "gb18030", "big5hkscs", "cp932", "euc-jp", "cp949",
    "cp1252", "iso8859-15", "mac-roman", "cp1250", "iso8859-2", "iso8859-16", "cp1257", "iso8859-13",
    "cp1253", "iso8859-7", "cp1254", "cp1255", "iso8859-8", "cp1256", "iso8859-6", "cp1258", "cp874",
    "cp437", "cp850", "cp860", "cp861", "cp863", "cp865", "cp852", "cp775", "cp866", "cp855", "cp1125",
    "cp737", "cp869", "cp857", "cp862", "cp864", "cp720",
)  # fmt: skip
# Escape sequence that switches the character set -> the encodings that use this sequence. A text in these encodings has
# only ASCII bytes, so it is also valid UTF-8. A file of valid UTF-8 is therefore searched for these sequences.
ESCAPED = {b"\x1b$": ("iso2022-jp", "iso2022-kr"), b"~}": ("hz",)}
# Characters in UTF-7 up to U+D7FF, such as +BB4-. The minus may be missing, but then only those of alphabets, up to
# U+13FF, are recognized. Other texts rarely have such a word after a plus, and most such words are not valid UTF-7.
UTF7 = re.compile(rb"\+([A-Za-z01][A-Za-z0-9+/]{2,}-|[A-E][A-Za-z0-9+/]{2,})")
# Encoding that chardet may detect -> superset of this encoding in DETECTED. By the HTML standard, a page that declares
# the subset must be read with the superset.
SUPERSETS = {
    "iso8859-1": "cp1252", "iso8859-9": "cp1254", "tis-620": "cp874", "euc_kr": "cp949",
    "shift_jis_2004": "cp932", "euc_jis_2004": "euc-jp",
}  # fmt: skip
# the values of download.encoding
ENCODINGS = ("auto", *UNICODE, *DETECTED, *sum(ESCAPED.values(), ()), "shift-jis", "euc-kr", "big5")

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
    """Error for bytes that cannot be decoded. The message does not name the file.

    `offset` is the position of the first invalid byte in the file. It is None if the file contains NUL, or if
    `detect_encoding` raised the error.
    """

    def __init__(self, why: str, offset: int | None = None) -> None:
        super().__init__(why)
        self.offset = offset


def decode(file: IO[bytes], encoding: str) -> Iterator[str]:
    """Yield the text of a file in pieces, without the byte order mark at its start.

    Raises:
        BadEncodingError: a byte is invalid, or the text contains NUL. Real texts never contain NUL, but UTF-16 that is
            decoded as UTF-8 does.
    """
    decoder = codecs.getincrementaldecoder(encoding)()
    n_read, mark = 0, BOM
    while True:
        raw = file.read(PIECE_BYTES)
        n_kept = len(decoder.getstate()[0])  # bytes of a character that the previous piece did not complete
        try:
            piece = decoder.decode(raw, final=not raw)
        except UnicodeDecodeError as error:
            offset = n_read - n_kept + error.start
            why = f"byte {offset} (0x{error.object[error.start]:02x}) is not {encoding.upper()}"
            raise BadEncodingError(why, offset) from None
        except UnicodeError:  # raised for UTF-16 and UTF-32 without a byte order mark
            raise BadEncodingError(f"has no byte order mark, with which {encoding.upper()} must begin", 0) from None
        if NUL in piece:
            raise BadEncodingError(HAS_NUL)
        n_read += len(raw)
        if text := piece.removeprefix(mark):
            yield text
        mark = "" if piece else mark
        if not raw:
            return


def detect_encoding(open_file: Callable[[], IO[bytes]]) -> str:
    """Return the encoding of a file, one of ENCODINGS except `auto`.

    The first rule that applies decides:

    1. If the file begins with a byte order mark, the mark gives the encoding.
    2. If all bytes are valid UTF-8, the encoding is UTF-8. There is one exception: if the file contains an escape
       sequence of ESCAPED and is valid in an encoding that uses this sequence, this encoding is returned. A file that
       looks like UTF-7 is an error.
    3. If most of the text is valid UTF-8, the file is damaged UTF-8, which is an error.
    4. The library chardet lists probable encodings. The first of them in which all bytes are valid is returned.

    Args:
        open_file: opens the file from its start. It is called several times, because an encoding without a byte order
            mark is verified on the whole file.

    Raises:
        BadEncodingError: no encoding fits the whole file, or the file is damaged UTF-8, is UTF-7, or contains NUL.
    """
    with open_file() as file:
        head = file.read(HEAD_BYTES)
    for mark, encoding in BOMS.items():
        if head.startswith(mark):
            return encoding
    utf8_error = _decoding_error(open_file, "utf-8")
    if utf8_error is None:
        name = next((name for name in _escaped(open_file) if not _decoding_error(open_file, name)), "utf-8")
        if name == "utf-7":
            raise BadEncodingError("looks like UTF-7 (`iconv -f utf-7 -t utf-8` converts it; utf-8 reads it as it is)")
        return name
    sample = _sample(open_file)
    if utf8_error.offset is None or NUL.encode() in sample:
        raise BadEncodingError(HAS_NUL)
    if _is_mostly_utf8(sample):
        raise BadEncodingError(f"{utf8_error}, but the text around it is")
    for encoding in _guesses(sample):
        if not _decoding_error(open_file, encoding):
            return encoding
    raise BadEncodingError(f"{utf8_error}, and no other encoding fits the whole file")


def _escaped(open_file: Callable[[], IO[bytes]]) -> Iterator[str]:
    """Yield the encodings in ESCAPED, and "utf-7", whose escape sequences occur in a file."""
    with open_file() as file:
        for piece in iter(lambda: file.read(PIECE_BYTES), b""):
            for escape, encodings in ESCAPED.items():
                if escape in piece:
                    yield from encodings
            if UTF7.search(piece):
                yield "utf-7"


def _sample(open_file: Callable[[], IO[bytes]]) -> bytes:
    """Return a sample of a file, from which its encoding can be guessed."""
    sample = b""
    with open_file() as file:
        while len(sample) < SAMPLE_BYTES and (line := file.readline(SAMPLE_BYTES)):
            if len(sample) < HEAD_BYTES or not line.isascii():
                sample += line
    return sample


def _guesses(sample: bytes) -> Iterator[str]:
    """Yield the encodings that `sample` may have, the most probable first."""
    import chardet

    # without the line feed, chardet mistakes a text that begins with BM or MZ for an image or a program
    matches = chardet.detect_all(
        b"\n" + sample, include_encodings=(*DETECTED, *SUPERSETS), compat_names=False, ignore_threshold=True
    )
    for match in matches:
        if name := match["encoding"]:
            yield SUPERSETS.get(name, name)


def _decoding_error(open_file: Callable[[], IO[bytes]], encoding: str) -> BadEncodingError | None:
    """Return the error that decoding the whole file as `encoding` raises, or None if all bytes are valid."""
    try:
        with open_file() as file:
            for _ in decode(file, encoding):
                pass
    except BadEncodingError as error:
        return error
    return None


def _is_mostly_utf8(sample: bytes) -> bool:
    """Return whether a sample is UTF-8 with a few damaged characters."""
    text = sample.decode(errors="replace")
    damaged = text.count("\ufffd")
    return len(text) - len(text.encode("ascii", "ignore")) - damaged > 2 * damaged
