"""Errors with messages for users, and URLs without their secrets."""

import errno
import os
import re
from typing import Any
from urllib.parse import quote


class BukvaError(Exception):
    """An expected error. A stage prints its message, without a traceback or secrets, and exits with `exit_status`."""

    exit_status = 1

    def __str__(self) -> str:
        return redact_text(super().__str__())


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
URL = re.compile(rf"{SCHEME.pattern}\S*(?<![.,:;'\"`)])")  # without the punctuation of the sentence
HUB = "hf://"
# a dataset on the Hugging Face hub, with @ and the hash of a commit, for which advice has the word COMMIT
DATASET = re.compile(rf"{HUB}datasets/[\w.-]+/[\w.-]+@([0-9a-f]{{40}}|COMMIT)\b")
HIDDEN = "***"
SECRETS = re.compile("(TOKEN|PASSWORD|SECRET|SECRET_ACCESS_KEY|API_KEY)$")  # names of environment variables
LEAST_CHARS = 4  # a shorter value of such a variable would also be found in ordinary words


def redact_url(url: str) -> str:
    """Replace user and password in a URL with ***, and remove the query and the fragment.

    A password may contain @ : / ? and #. If it is unclear where it ends, everything after the scheme is hidden.
    """
    match = DATASET.match(url) or SCHEME.match(url)
    scheme = match[0] if match else ""
    location, *query = re.split("[?#]", url[len(scheme) :], maxsplit=1)
    _, at, location = location.rpartition("@")
    # digits after the colon are a port; anything else may be a password
    is_clear = re.fullmatch(r"(\[[^\]]*\]|[^:]*)(:[0-9]*)?", location.partition("/")[0])
    if "@" in "".join(query) or (scheme and not is_clear) or (at and scheme.startswith(HUB)):
        return f"{scheme}{HIDDEN}"
    return f"{scheme}{HIDDEN}@{location}" if at else scheme + location


def redact_text(text: object) -> str:
    """Apply `redact_url` to every URL in a text, and hide passwords and tokens of environment variables."""
    shown = _redact_urls(str(text))
    for name, secret in os.environ.items():
        if SECRETS.search(name) and len(secret) >= LEAST_CHARS:
            shown = shown.replace(secret, HIDDEN).replace(quote(secret), HIDDEN)
    return shown


def _redact_urls(text: str) -> str:
    return URL.sub(lambda match: redact_url(match[0]), text)


def redact_params(value: Any, key: str = "") -> Any:
    """Return the content of params.yaml or dvc.lock, or a part of it, with `redact_url` applied to every URL."""
    match value:
        case dict():
            return {name: redact_params(each, name) for name, each in value.items()}
        case list():
            return [redact_params(each) for each in value]
        case str():  # `url` may be an address without a scheme
            return redact_url(value) if key.endswith("url") else _redact_urls(value)
    return value
