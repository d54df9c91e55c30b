"""Errors with messages for users, and URLs without their secrets."""

import errno
import re


class BukvaError(Exception):
    """An expected error. A stage prints its message, without a traceback, and exits with `exit_status`."""

    exit_status = 1


class ParamsError(BukvaError):
    """A mistake in params.yaml or in a file that it names. A stage also prints how to undo the edit."""


class PeerLostError(BukvaError):
    """Another machine of the training has stopped or does not respond. A retry may succeed."""

    exit_status = 75  # EX_TEMPFAIL of sysexits.h


# Advice for the user when a write fails, by error number. It is printed after the reason (strerror).
FULL = "Existing files are intact. Free some space and run the same command again"
DISK = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT, errno.EFBIG), FULL),
    **dict.fromkeys((errno.EROFS, errno.EACCES, errno.EPERM), "Check the permissions of this path"),
    errno.EIO: "The disk reports I/O errors. Check the disk or use another one",
}


def message_for(error: BaseException) -> str:
    """Return a one-line message for an error that users can expect, or "" for a bug."""
    if isinstance(error, BukvaError):
        return str(error)
    if isinstance(error, OSError) and error.errno in DISK:
        return f"{error.filename or 'a file'}: {error.strerror}. {DISK[error.errno]}."
    # torch's error is recognized by its text, because some stages do not import torch
    text = str(error) if isinstance(error, RuntimeError) else ""
    if isinstance(error, MemoryError) or "out of memory" in text or "can't allocate memory" in text:
        return "Out of memory. Use a smaller model, batch_size, block_size or baselines.max_order, or a shorter text."
    return ""


SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
URL = re.compile(rf"{SCHEME.pattern}\S*")
HIDDEN = "***"


def redact_url(url: str) -> str:
    """Replace user and password in a URL with ***, and remove the query and the fragment.

    A password may contain @ : / ? and #. If it is unclear where it ends, everything after the scheme is hidden.
    """
    match = SCHEME.match(url)
    scheme = match[0] if match else ""
    location, *query = re.split("[?#]", url[len(scheme) :], maxsplit=1)
    _, at, location = location.rpartition("@")
    # digits after the colon are a port; anything else may be a password
    is_clear = re.fullmatch(r"(\[[^\]]*\]|[^:]*)(:[0-9]*)?", location.partition("/")[0])
    if "@" in "".join(query) or (scheme and not is_clear):
        return f"{scheme}{HIDDEN}"
    return f"{scheme}{HIDDEN}@{location}" if at else scheme + location


def redact_text(text: object) -> str:
    """Apply `redact_url` to every URL in a text."""
    return URL.sub(lambda match: redact_url(match[0]), str(text))
