"""Score general-purpose compressors as language models.

The score of a compressor is the number of bits that the held-out text adds to the compressed training split, per
character of the held-out text. C is the compressed size in bytes:

    8 (C(train + held out) - C(train)) / characters of the held-out text

Before compression, each character is encoded as one byte, its id. In UTF-8, a Cyrillic letter would have two bytes, and
the score of PPMd would be worse by 0.3 bits per character.
"""

import lzma
import math
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from bukva.text.ids import Ids

ADAPTIVE = (
    "adaptive: the compressor reads the training split first (at most 33.6 million characters of it), and keeps "
    "learning from the held-out text"
)
MAX_READ = 2**25  # ids of train that a compressor reads at most; more do not fit into the memory of PPMd
N_EXCERPTS = 16  # evenly spaced excerpts of train that it reads of a longer text
MAX_SYMBOLS = 256  # number of different ids that one byte can represent
Encoder = tuple[Callable[[bytes], bytes], Callable[[], bytes]]  # compresses the next part of a text, and ends the text


@dataclass(frozen=True)
class Compressor:
    """A compression format, and its settings for a table of scores (ADAPTIVE explains their last word, "adaptive")."""

    settings: str
    start: Callable[[], Encoder]  # deterministic
    max_bytes: float  # of train and the held-out text together; longer texts take minutes (docs/dev/decisions.md)


def _xz() -> Encoder:
    # .lzma instead of .xz, because .xz pads its content to a multiple of 4 bytes
    encoder = lzma.LZMACompressor(lzma.FORMAT_ALONE, preset=9 | lzma.PRESET_EXTREME)
    return encoder.compress, encoder.flush


def _ppmd() -> Encoder:
    import pyppmd

    encoder = pyppmd.Ppmd7Encoder(6, 256 << 20)
    return encoder.encode, encoder.flush


COMPRESSORS = {
    "xz": Compressor("preset 9e, dictionary of 64 MiB; adaptive", _xz, 4 << 20),
    "ppmd": Compressor("7-Zip's variant, order 6, 256 MiB of memory; adaptive", _ppmd, math.inf),
}


def scores(train: Ids, held_out: Mapping[str, Ids], vocab_size: int) -> dict[str, dict[str, float]]:
    """Return the bits per id of each held-out split under each compressor, by name of the split and of the compressor.

    If the training split has more than MAX_READ ids, compressors read only excerpts of it. A compressor skips a split
    that is too long for it. Nothing is scored with more than 256 different ids, because one byte cannot represent them.
    """
    if vocab_size > MAX_SYMBOLS:
        return {split: {} for split in held_out}
    if len(train) > MAX_READ:
        length = MAX_READ // N_EXCERPTS
        starts = np.linspace(0, len(train) - length, N_EXCERPTS).astype(np.int64)
        train = np.concatenate([train[start : start + length] for start in starts])
    bits: dict[str, dict[str, float]] = {split: {} for split in held_out}
    for name, compressor in COMPRESSORS.items():
        if fitting := [split for split, ids in held_out.items() if len(train) + len(ids) <= compressor.max_bytes]:
            alone, *sizes = _compressed_sizes(name, [train, *(held_out[split] for split in fitting)])
            for split, size in zip(fitting, sizes, strict=True):
                bits[split][name] = 8 * (size - alone) / len(held_out[split])
    return bits


def _compressed_sizes(name: str, texts: list[Ids]) -> list[int]:
    """Return the compressed sizes of the first text, and of the first text followed by each of the others."""
    command = [sys.executable, "-m", __name__, name, *(str(len(ids)) for ids in texts)]
    raw = b"".join(np.asarray(ids, np.uint8).tobytes() for ids in texts)
    return [int(size) for size in subprocess.run(command, input=raw, stdout=subprocess.PIPE, check=True).stdout.split()]


def _print_sizes(name: str, *lengths: str) -> None:
    # The first text is compressed once. Forks of this process continue with each other text, and print its size.
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C also interrupts this process, and ends it immediately
    compress, end = COMPRESSORS[name].start()
    train, *others = (sys.stdin.buffer.read(int(length)) for length in lengths)
    size = len(compress(train))
    for text in (b"", *others):
        if not os.fork():
            print(size + len(compress(text)) + len(end()), flush=True)
            os._exit(0)
        if os.wait()[1]:
            sys.exit(1)


if __name__ == "__main__":
    _print_sizes(*sys.argv[1:])
