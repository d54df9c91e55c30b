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
from concurrent.futures import ThreadPoolExecutor
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
    texts = {split: _as_bytes(ids) for split, ids in held_out.items()}

    def scores_of(name: str) -> dict[str, float]:
        fitting = {
            split: text for split, text in texts.items() if len(train) + len(text) <= COMPRESSORS[name].max_bytes
        }
        alone, *sizes = _compressed_sizes(name, _as_bytes(train), [*fitting.values()]) if fitting else [0]
        return {split: 8 * (size - alone) / len(texts[split]) for split, size in zip(fitting, sizes, strict=True)}

    with ThreadPoolExecutor(len(COMPRESSORS)) as threads:
        table = dict(zip(COMPRESSORS, threads.map(scores_of, COMPRESSORS), strict=True))
    return {split: {name: of_name[split] for name, of_name in table.items() if split in of_name} for split in held_out}


def _as_bytes(ids: Ids) -> bytes:
    return np.asarray(ids, np.uint8).tobytes()


def _compressed_sizes(name: str, train: bytes, others: list[bytes]) -> list[int]:
    """Return the compressed sizes of `train`, and of `train` followed by each of the other texts."""
    texts = [train, *others]
    command = [sys.executable, "-m", __name__, name, *(str(len(text)) for text in texts)]
    printed = subprocess.run(command, input=b"".join(texts), stdout=subprocess.PIPE, check=True).stdout
    return [
        int(line.split()[1]) for line in sorted(printed.decode().splitlines(), key=lambda line: int(line.split()[0]))
    ]


def _print_sizes(name: str, *lengths: str) -> None:
    # The first text is compressed once. A fork of this process continues with each other text, and prints its size.
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C also interrupts this process, and ends it immediately
    compress, end = COMPRESSORS[name].start()
    train, *others = (sys.stdin.buffer.read(int(length)) for length in lengths)
    size = len(compress(train))
    for number, text in enumerate([b"", *others]):
        if not os.fork():
            os.write(1, f"{number} {size + len(compress(text)) + len(end())}\n".encode())
            os._exit(0)
    sys.exit(any(os.wait()[1] for _ in lengths))


if __name__ == "__main__":
    _print_sizes(*sys.argv[1:])
