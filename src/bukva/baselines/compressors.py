"""Score general-purpose compressors as language models.

The score of a compressor is the number of bits that the held-out text adds to the compressed training split, per
character of the held-out text:

    8 (C(train + held out) - C(train)) / characters of the held-out text

C is the compressed size in bytes. Both sizes include the header of the format, so the score does not depend on the
header. Before compression, each character is encoded as one byte, its id. In UTF-8, a Cyrillic letter would have two
bytes, and the score of PPMd would be worse by 0.3 bits per character.

Each compressor has a limit, `max_bytes`. Longer texts are not scored. bz2 has a limit because it cannot look back more
than 900 kB. xz, zstd and brotli have a limit because longer texts take minutes (docs/dev/decisions.md).
"""

import bz2
import lzma
import math
import subprocess
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import brotli
import numpy as np
import zstandard

from bukva.core.machine import n_cores
from bukva.text.ids import Ids

ADAPTIVE = "adaptive: the compressor reads the training split first and keeps learning from the held-out text"

MAX_SYMBOLS = 256  # number of different ids that one byte can represent
TRAIN = "train"


@dataclass(frozen=True)
class Compressor:
    """A compression format and its settings.

    settings: description of the settings for a table of scores. Its last word is "adaptive", which ADAPTIVE explains.
    compress: deterministic function that returns the compressed text.
    max_bytes: maximum length of the training split and the held-out text together. Longer texts are not scored.
    """

    settings: str
    compress: Callable[[bytes], bytes]
    max_bytes: float


def scores(train: Ids, held_out: Mapping[str, Ids], vocab_size: int) -> dict[str, dict[str, float]]:
    """Score every compressor in COMPRESSORS on each held-out split.

    A compressor skips a split if this split and the training split together are longer than the
    `max_bytes` of the compressor.
    Args:
        train: ids of the training split.
        held_out: ids of each held-out split, by name of the split.
        vocab_size: number of different ids. If there are more than 256, nothing is scored, because one byte cannot
            represent an id.

    Returns:
        Bits per id, by name of the split and name of the compressor. A split without scores has an empty dictionary.
    """
    result: dict[str, dict[str, float]] = {split: {} for split in held_out}
    if vocab_size > MAX_SYMBOLS:
        return result
    train_bytes = _as_bytes(train)
    texts = {split: train_bytes + _as_bytes(ids) for split, ids in held_out.items()} | {TRAIN: train_bytes}
    scored = [
        (name, split)
        for name, compressor in COMPRESSORS.items()
        for split in held_out
        if len(texts[split]) <= compressor.max_bytes
    ]
    tasks = [*dict.fromkeys((name, TRAIN) for name, _ in scored), *scored]
    with ThreadPoolExecutor(n_cores()) as pool:  # compressors release the GIL; each process of PPMd takes 0.3 GB
        compressed = pool.map(lambda task: len(COMPRESSORS[task[0]].compress(texts[task[1]])), tasks)
        sizes = dict(zip(tasks, compressed, strict=True))
    for name, split in scored:
        result[split][name] = 8 * (sizes[name, split] - sizes[name, TRAIN]) / len(held_out[split])
    return result


def _as_bytes(ids: Ids) -> bytes:
    return np.asarray(ids, np.uint8).tobytes()


# Program that compresses its standard input with 7-Zip's variant of PPMd. Ctrl-C also interrupts this program. With the
# default handler, it ends immediately.
PPMD = """
import signal, sys, pyppmd
signal.signal(signal.SIGINT, signal.SIG_DFL)
encoder = pyppmd.Ppmd7Encoder(6, 256 << 20)
sys.stdout.buffer.write(encoder.encode(sys.stdin.buffer.read()) + encoder.flush())
"""


def _ppmd(text: bytes) -> bytes:
    """Compress a text with PPMd in a subprocess."""
    return subprocess.run([sys.executable, "-c", PPMD], input=text, stdout=subprocess.PIPE, check=True).stdout


COMPRESSORS = {
    "xz": Compressor(
        "preset 9e, dictionary of 64 MiB; adaptive",
        # .lzma instead of .xz, because .xz pads its content to a multiple of 4 bytes
        partial(lzma.compress, format=lzma.FORMAT_ALONE, preset=9 | lzma.PRESET_EXTREME),
        4 << 20,
    ),
    "bz2": Compressor("level 9, blocks of 900 kB; adaptive", bz2.compress, 900_000),
    "zstd": Compressor("level 22, window of 128 MiB; adaptive", partial(zstandard.compress, level=22), 4 << 20),
    "brotli": Compressor(
        "quality 11, window of 16 MiB; adaptive", partial(brotli.compress, quality=11, lgwin=24), 4 << 20
    ),
    "ppmd": Compressor("7-Zip's variant, order 6, 256 MiB of memory; adaptive", _ppmd, math.inf),
}
