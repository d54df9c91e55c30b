"""The encoding of a text: given, or detected and then verified on every byte of the file."""

import codecs
import re
from collections.abc import Callable, Iterator
from typing import IO

from bukva.core.files import PIECE_BYTES

# The values of download.encoding: names of Python. After those of Unicode stand those that are detected. Where two fit
# equally well, the earlier one is taken: the one that more texts are in.
ENCODINGS = (
    "auto",
    "utf-8",
    "utf-16",
    "utf-16-le",
    "utf-16-be",
    "utf-32",
    "cp1251",
    "koi8-r",
    "cp866",
    "iso8859-5",
    "mac-cyrillic",
    "koi8-u",
    "gb18030",
    "shift-jis",
    "euc-jp",
    "euc-kr",
    "big5",
    "cp1252",
    "iso8859-15",
    "cp1250",
    "iso8859-2",
    "cp1253",
    "cp1254",
    "cp1257",
    "mac-roman",
    "cp1255",
    "cp1256",
    "cp1258",
    "cp874",
)
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
NUL_REASON = "is NUL, as in binary files and in UTF-16 without a byte order mark (utf-16-le or utf-16-be)"
SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]")  # half a character as some programs write it, and UTF-8 forbids
DECLARED = re.compile(rb"""<[^<>]*\b(?:charset|encoding)\s*=\s*["']?([\w.:-]+)""", re.IGNORECASE)


class UnknownEncodingError(Exception):
    """No encoding fits; the message says so without naming the file."""


def decoded(file: IO[bytes], encoding: str) -> Iterator[str]:
    """The text of a file in pieces, without the byte order mark at its start.

    Raises:
        UnicodeDecodeError: counts bytes from the start of the file, and its reason says what is wrong with the first.
            A NUL is wrong in every encoding: no text has one, but UTF-16 that is read as UTF-8 has many.
    """
    decoder = codecs.getincrementaldecoder(encoding)()
    read, mark = 0, MARK
    while True:
        raw = file.read(PIECE_BYTES)
        kept = len(decoder.getstate()[0])  # the first bytes of a character that ended the piece before
        try:
            piece = decoder.decode(raw, final=not raw)
        except UnicodeDecodeError as error:
            bad = error.object[error.start : error.end]
            raise _fault(encoding, bad, read - kept + error.start, f"is not {encoding.upper()}") from None
        except UnicodeError:  # what Python says of UTF-16 and UTF-32 without a mark
            raise _fault(encoding, raw, 0, f"is no byte order mark, with which {encoding.upper()} begins") from None
        if NUL in piece:
            before = piece[: piece.index(NUL)].encode(encoding)
            at = read - kept + len(before) - (len("".encode(encoding)) if read else 0)  # Python writes a mark each time
            raise _fault(encoding, NUL.encode(), at, NUL_REASON)
        read += len(raw)
        if text := piece.removeprefix(mark):
            yield text
        mark = "" if piece else mark
        if not raw:
            return


def _fault(encoding: str, bad: bytes, at: int, reason: str) -> UnicodeDecodeError:
    return UnicodeDecodeError(encoding, bad, at, at + len(bad), reason)


def what_is_wrong(error: UnicodeDecodeError) -> str:
    """What `decoded` raises, for a sentence: byte 7 (0xe0) is not UTF-8."""
    return f"byte {error.start} (0x{error.object[0]:02x}) {error.reason}"


def detected(open_file: Callable[[], IO[bytes]]) -> str:
    """The encoding of a file, one of ENCODINGS or what a page of HTML declares.

    In this order: a byte order mark decides; UTF-8 if all bytes are, and nothing if most of them are; what the head of
    an HTML or XML file declares; the guess of charset-normalizer. All but the first are verified on the whole file.

    Args:
        open_file: gives the file from its start; it is read up to four times, in pieces.

    Raises:
        UnknownEncodingError: none fits.
    """
    with open_file() as file:
        head = file.read(HEAD_BYTES)
    for mark, encoding in MARKS.items():
        if head.startswith(mark):
            return encoding
    bad = _first_bad_byte(open_file, "utf-8")
    if bad is None:
        return "utf-8"
    if bad.reason == NUL_REASON:
        raise UnknownEncodingError(what_is_wrong(bad))
    sample, place = _around(open_file, bad.start)
    if _is_mostly_utf8(sample):
        raise UnknownEncodingError(f"{what_is_wrong(bad)}, but the text around it is")
    for encoding in (*_declared(head), *_guesses(_from_the_line_with(sample, place))):
        if not _first_bad_byte(open_file, encoding):
            return encoding
    raise UnknownEncodingError(f"{what_is_wrong(bad)}, and no other encoding fits the whole file")


def _first_bad_byte(open_file: Callable[[], IO[bytes]], encoding: str) -> UnicodeDecodeError | None:
    with open_file() as file:
        try:
            for _ in decoded(file, encoding):
                pass
        except UnicodeDecodeError as error:
            return error
    return None


def _declared(head: bytes) -> Iterator[str]:
    """What <meta charset=...> or <?xml encoding=...?> names, if it is an encoding of text."""
    if (found := DECLARED.search(head)) and found[1].isascii():
        try:
            codec = codecs.lookup(found[1].decode())
        except LookupError:
            return
        if codec.name in {codecs.lookup(name).name for name in DETECTED}:
            yield codec.name


def _around(open_file: Callable[[], IO[bytes]], position: int) -> tuple[bytes, int]:
    """Some bytes around a position, and where it is in them."""
    with open_file() as file:
        start = max(0, position - SAMPLE_BYTES // 2)
        file.seek(start)
        return file.read(SAMPLE_BYTES), position - start


def _is_mostly_utf8(sample: bytes) -> bool:
    """Whether more than two characters beyond ASCII are whole in UTF-8 for each byte that is not: so a few are damaged.

    Texts in the other encodings have less than one; whole by chance are most in Greek in GB 18030, 0.7. A surrogate
    counts as whole: other encodings hardly have its bytes.
    """
    text = SURROGATE.sub("ж".encode(), sample).decode(errors="replace")
    damaged = text.count("\ufffd")
    return len(text) - len(text.encode("ascii", "ignore")) - damaged > 2 * damaged


def _from_the_line_with(sample: bytes, place: int) -> bytes:
    """The sample from the start of the line with a strange byte; what is before it is ASCII or UTF-8."""
    return sample[sample.rfind(b"\n", 0, place) + 1 :]


def _guesses(sample: bytes) -> list[str]:
    """The encodings that a sample may have, the likeliest first."""
    from charset_normalizer import from_bytes

    names = {name.replace("-", "_"): name for name in DETECTED}
    scored = [
        (match.chaos, -match.coherence, DETECTED.index(names[encoding]))
        for match in from_bytes(sample, cp_isolation=list(names), enable_fallback=False)
        for encoding in match.could_be_from_charset
        if encoding in names
    ]
    return [DETECTED[place] for _, _, place in sorted(scored)]
