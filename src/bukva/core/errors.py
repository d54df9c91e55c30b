"""Errors as a user sees them: one sentence that says where, what, and which values are valid or what to do."""

import errno


class BukvaError(Exception):
    """A mistake in the input, phrased as one sentence.

    A stage prints the sentence and exits with 1, without a traceback (bukva.cli.stage). Every other exception is a
    bug and keeps its traceback, except where the machine runs out of disk or memory.
    """

    exit_status = 1


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
    match error:
        case BukvaError():
            return str(error)
        case OSError(errno=number) if number in DISK:
            return f"{error.filename or 'a file'}: {error.strerror}; {DISK[number]}."
        case MemoryError() | RuntimeError() if _is_out_of_memory(error):
            return "This machine has too little memory; use a smaller model, batch_size or block_size."
        case _:
            return ""


def _is_out_of_memory(error: BaseException) -> bool:
    """Python's own error, or torch's, recognised by its words because light stages do not import torch."""
    words = str(error)
    return isinstance(error, MemoryError) or "out of memory" in words or "can't allocate memory" in words
