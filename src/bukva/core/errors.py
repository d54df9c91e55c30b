"""Errors as a user sees them: one sentence that says where, what, and which values are valid or what to do.

No secret of an address reaches a message, a log or a tracker.
"""

import errno
import re


class BukvaError(Exception):
    """A mistake in the input, phrased as one sentence.

    A stage prints the sentence and exits with 1, without a traceback (bukva.cli.stage). Every other exception is a
    bug and keeps its traceback, except where the machine runs out of disk or memory.
    """

    exit_status = 1


class ParamsError(BukvaError):
    """A mistake in params.yaml, or in a text or file that it names.

    The command that undoes the edit is printed below the sentence, because DVC may have removed outputs by then.
    """


class LostError(BukvaError):
    """Another machine has ended or does not answer: nothing is wrong here, and another try may succeed."""

    exit_status = 75  # EX_TEMPFAIL of sysexits.h


# What to do when a write fails; strerror says why.
DISK = {
    **dict.fromkeys(
        (errno.ENOSPC, errno.EDQUOT, errno.EFBIG),
        "existing files are intact: free some space and give the same command again",
    ),
    **dict.fromkeys((errno.EROFS, errno.EACCES, errno.EPERM), "check the permissions of this path"),
    errno.EIO: "the disk reports I/O errors: check it or use another",
}


def sentence_for(error: BaseException) -> str:
    """The sentence for an error that is not a bug; empty for a bug."""
    if isinstance(error, BukvaError):
        return str(error)
    if isinstance(error, OSError) and error.errno in DISK:
        return f"{error.filename or 'a file'}: {error.strerror}; {DISK[error.errno]}."
    # torch's own error is known by its words, because light stages do not import torch
    words = str(error) if isinstance(error, RuntimeError) else ""
    if isinstance(error, MemoryError) or "out of memory" in words or "can't allocate memory" in words:
        return "This machine has too little memory; use a smaller model, batch_size or block_size."
    return ""


SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
ADDRESS = re.compile(rf"{SCHEME.pattern}\S*")
HIDDEN = "***"


def redact_url(address: str) -> str:
    """An address without password, query and fragment; a user becomes ***.

    A password that was pasted unescaped may contain @ : / ? and #. Where it is ambiguous, because it may also be a
    query or a port, everything except the scheme is hidden.
    """
    found = SCHEME.match(address)
    scheme = found[0] if found else ""
    place, *query = re.split("[?#]", address[len(scheme) :], maxsplit=1)
    _, at, place = place.rpartition("@")
    # after the colon of the host stands a port, or a password without its host
    is_clear = re.fullmatch(r"(\[[^\]]*\]|[^:]*)(:[0-9]*)?", place.partition("/")[0])
    if "@" in "".join(query) or (scheme and not is_clear):
        return f"{scheme}{HIDDEN}"
    return f"{scheme}{HIDDEN}@{place}" if at else scheme + place


def redact_text(text: object) -> str:
    """A text with every address in it redacted."""
    return ADDRESS.sub(lambda found: redact_url(found[0]), str(text))
