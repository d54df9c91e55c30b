"""The encoding of a text: given, or detected and then verified on every byte of the file."""

import codecs
from collections.abc import Callable, Iterator
from typing import IO

from bukva.core.files import PIECE_BYTES

# The values of download.encoding: names of Python. After those of Unicode stand those that are detected.
ENCODINGS = (
    "auto", "utf-8", "utf-16", "utf-16-le", "utf-16-be", "utf-32",
    "cp1251", "koi8-r", "cp866", "iso8859-5", "mac-cyrillic", "koi8-u",
    "gb18030", "shift-jis", "euc-jp", "euc-kr", "big5",
    "cp1252", "iso8859-15", "cp1250", "iso8859-2", "cp1253", "cp1254", "cp1257", "mac-roman",
    "cp1255", "cp1256", "cp1258", "cp874",
)  # fmt: skip
DETECTED = ENCODINGS[6:]
SAMPLE_BYTES = 1 << 16  # more do not make the detection better, only slower
HEAD_BYTES = 1024  # where HTML declares its encoding, if it does

MARKS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF32_LE: "utf-32",  # before UTF-16, which begins with the same two bytes
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
MARK, NUL = "\ufeff", "\0"


class BadEncodingError(Exception):
    """A file has another encoding, or none that is known; the message says so without naming the file.

    `at` is the first byte that does not fit, or None where NUL is the fault.
    """

    def __init__(self, why: str, at: int | None = None) -> None:
        super().__init__(why)
        self.at = at


def decoded(file: IO[bytes], encoding: str) -> Iterator[str]:
    """The text of a file in pieces, without the byte order mark at its start.

    Raises:
        BadEncodingError: a byte does not fit; or there is a NUL: no text has one, but UTF-16 that is read as UTF-8 has.
    """
    decoder = codecs.getincrementaldecoder(encoding)()
    read, mark = 0, MARK
    while True:
        raw = file.read(PIECE_BYTES)
        kept = len(decoder.getstate()[0])  # the first bytes of a character that ended the piece before
        try:
            piece = decoder.decode(raw, final=not raw)
        except UnicodeDecodeError as error:
            at = read - kept + error.start
            why = f"byte {at} (0x{error.object[error.start]:02x}) is not {encoding.upper()}"
            raise BadEncodingError(why, at) from None
        except UnicodeError:  # what Python says of UTF-16 and UTF-32 without a mark
            raise BadEncodingError(f"has no byte order mark, with which {encoding.upper()} begins", 0) from None
        if NUL in piece:
            what = "as binary files and UTF-16 without a byte order mark (utf-16-le or utf-16-be) do"
            raise BadEncodingError(f"contains NUL, {what}")
        read += len(raw)
        if text := piece.removeprefix(mark):
            yield text
        mark = "" if piece else mark
        if not raw:
            return


def detected(open_file: Callable[[], IO[bytes]]) -> str:
    """The encoding of a file, one of ENCODINGS.

    In this order: a byte order mark decides; UTF-8 if all bytes are, and nothing if most of them are; the guesses of
    charset-normalizer. All but the first are verified on the whole file, which is opened and read several times.

    Raises:
        BadEncodingError: none fits.
    """
    with open_file() as file:
        head = file.read(HEAD_BYTES)
    for mark, encoding in MARKS.items():
        if head.startswith(mark):
            return encoding
    bad = _misfit(open_file, "utf-8")
    if bad is None:
        return "utf-8"
    if bad.at is None:
        raise bad
    start = max(0, bad.at - SAMPLE_BYTES // 2)
    with open_file() as file:
        file.seek(start)
        sample = file.read(SAMPLE_BYTES)
    if _is_mostly_utf8(sample):
        raise BadEncodingError(f"{bad}, but the text around it is")
    from charset_normalizer import from_bytes

    names = [name.replace("-", "_") for name in DETECTED]
    # it also looks for what the head of an HTML or XML file declares
    for match in from_bytes((head if start else b"") + sample, cp_isolation=names, enable_fallback=False):
        encoding = match.encoding.replace("_", "-")
        if not _misfit(open_file, encoding):
            return encoding
    raise BadEncodingError(f"{bad}, and no other encoding fits the whole file")


def _misfit(open_file: Callable[[], IO[bytes]], encoding: str) -> BadEncodingError | None:
    try:
        with open_file() as file:
            for _ in decoded(file, encoding):
                pass
    except BadEncodingError as error:
        return error
    return None


def _is_mostly_utf8(sample: bytes) -> bool:
    """Whether more than two characters beyond ASCII are whole in UTF-8 for each byte that is not: so a few are damaged.

    Texts in the other encodings have less than one; whole by chance are most in Greek in GB 18030, 0.7.
    """
    text = sample.decode(errors="replace")
    damaged = text.count("\ufffd")
    return len(text) - len(text.encode("ascii", "ignore")) - damaged > 2 * damaged
