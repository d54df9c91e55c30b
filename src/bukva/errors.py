"""What a user meets when something is wrong: one sentence, where it is, what it is, what would do."""

import errno


class BukvaError(Exception):
    """A mistake in the input, told as one sentence.

    A stage prints the sentence and exits with 1, without a traceback (bukva.cli). Everything else that is
    raised is a fault of the program and keeps its traceback, but for what the machine runs out of.
    """


# What a disk says when it takes no more, and what would do; strerror tells the rest.
DISK = {
    **dict.fromkeys(
        (errno.ENOSPC, errno.EDQUOT, errno.EFBIG),
        "what was there is intact; make room, and give the same command again",
    ),
    **dict.fromkeys((errno.EROFS, errno.EACCES, errno.EPERM), "the right to read and write there would do"),
    errno.EIO: "another disk would do",
}


def told(error: BaseException) -> str:
    """The sentence to tell of an error that is no fault of the program; empty for one that is."""
    match error:
        case BukvaError():
            return str(error)
        case OSError(errno=number) if number in DISK:
            return f"{error.filename or 'a file'}: {error.strerror}; {DISK[number]}."
        case MemoryError() | RuntimeError() if _is_out_of_memory(error):
            return "The memory of this machine is too small for it; a smaller model, batch_size or block_size would do."
        case _:
            return ""


def _is_out_of_memory(error: BaseException) -> bool:
    """Python's own error, or one of torch, which the light stages do not load, known by its words."""
    words = str(error)
    return isinstance(error, MemoryError) or "out of memory" in words or "can't allocate memory" in words
