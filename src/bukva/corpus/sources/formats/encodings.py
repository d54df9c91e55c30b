"""The encoding of a text: given, or detected and then verified on every byte of the file."""

import codecs
from collections.abc import Callable, Iterator
from typing import IO

from bukva.core.files import PIECE_BYTES

# The values of download.encoding, as Python names them: Unicode, then the encodings that are detected. Those are the
# encodings of the HTML standard, and the code pages of DOS.
UNICODE = ("utf-8", "utf-16", "utf-16-le", "utf-16-be", "utf-32")
DETECTED = (
    "cp1251", "koi8-r", "koi8-u", "iso8859-5", "mac-cyrillic",
    "gb18030", "big5hkscs", "cp932", "euc-jp", "cp949",
    "cp1252", "iso8859-15", "mac-roman", "cp1250", "iso8859-2", "iso8859-16", "cp1257", "iso8859-13",
    "cp1253", "iso8859-7", "cp1254", "cp1255", "iso8859-8", "cp1256", "iso8859-6", "cp1258", "cp874",
    "cp437", "cp850", "cp860", "cp861", "cp863", "cp865", "cp852", "cp775", "cp866", "cp855", "cp1125",
    "cp737", "cp869", "cp857", "cp862", "cp864", "cp720",
)  # fmt: skip
# The encodings whose bytes are all ASCII, by the bytes with which they switch between characters: so valid UTF-8 has
# to be searched for them.
ESCAPED = {b"\x1b$": ("iso2022-jp", "iso2022-kr"), b"~}": ("hz",)}
# the subsets of an encoding in DETECTED; a page that declares one is read by the superset, as the HTML standard demands
SUPERSETS = {
    "iso8859-1": "cp1252", "iso8859-9": "cp1254", "tis-620": "cp874", "euc_kr": "cp949",
    "shift_jis_2004": "cp932", "euc_jis_2004": "euc-jp",
}  # fmt: skip
ENCODINGS = ("auto", *UNICODE, *DETECTED, *sum(ESCAPED.values(), ()), "shift-jis", "euc-kr", "big5")

SAMPLE_BYTES = 1 << 15  # chardet scores the first 16 kB
HEAD_BYTES = 1024  # where HTML declares its encoding, if it does

MARKS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF32_LE: "utf-32",  # before UTF-16, which begins with the same two bytes
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
MARK, NUL = "\ufeff", "\0"
HAS_NUL = "contains NUL, as binary files and UTF-16 without a byte order mark (utf-16-le or utf-16-be) do"


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
            raise BadEncodingError(HAS_NUL)
        read += len(raw)
        if text := piece.removeprefix(mark):
            yield text
        mark = "" if piece else mark
        if not raw:
            return


def detected(open_file: Callable[[], IO[bytes]]) -> str:
    """Return the encoding of a file, one of ENCODINGS.

    In this order: a byte order mark decides; one of ESCAPED; UTF-8 if all bytes are, and nothing if most are; the
    guesses of chardet. All but the first are verified on the whole file, which is opened and read several times.

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
        return next((name for name in _escaped(open_file) if not _misfit(open_file, name)), "utf-8")
    sample = _sample(open_file)
    if bad.at is None or NUL.encode() in sample:
        raise BadEncodingError(HAS_NUL)
    if _is_mostly_utf8(sample):
        raise BadEncodingError(f"{bad}, but the text around it is")
    for encoding in _guesses(sample):
        if not _misfit(open_file, encoding):
            return encoding
    raise BadEncodingError(f"{bad}, and no other encoding fits the whole file")


def _escaped(open_file: Callable[[], IO[bytes]]) -> Iterator[str]:
    """Yield those of ESCAPED whose switch is in a file."""
    with open_file() as file:
        for piece in iter(lambda: file.read(PIECE_BYTES), b""):
            for switch, encodings in ESCAPED.items():
                if switch in piece:
                    yield from encodings


def _sample(open_file: Callable[[], IO[bytes]]) -> bytes:
    """Return the head of a file, where a page declares its encoding, and its first lines that are not ASCII."""
    sample = b""
    with open_file() as file:
        while len(sample) < SAMPLE_BYTES and (line := file.readline(SAMPLE_BYTES)):
            if len(sample) < HEAD_BYTES or not line.isascii():
                sample += line
    return sample


def _guesses(sample: bytes) -> Iterator[str]:
    """Yield the encodings that a sample may have, the most probable one first."""
    import chardet

    # the line feed keeps a text that begins with BM or MZ from being taken for a picture or a program
    matches = chardet.detect_all(
        b"\n" + sample, include_encodings=(*DETECTED, *SUPERSETS), compat_names=False, ignore_threshold=True
    )
    for match in matches:
        if name := match["encoding"]:
            yield SUPERSETS.get(name, name)


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
