"""General compressors as language models: what held-out text adds to the compressed size of train.

Score = 8 (C(train + held out) - C(train)) / characters of the held-out text, with C the compressed size in bytes. The
text is recoded to one byte a character, its id: in UTF-8 a Cyrillic letter is two bytes, which costs PPMd 0.3 bits per
character. The header of a format is in both sizes and cancels.

A compressor whose `max_bytes` a text exceeds has no score for it: bz2 forgets what is 900 kB back, and xz, zstd and
brotli would take minutes (docs/dev/decisions.md).
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

ADAPTIVE = "adaptive: having read train, and learning on from the held-out text as it goes"

MAX_SYMBOLS = 256  # one byte a character
TRAIN = "train"


@dataclass(frozen=True)
class Compressor:
    """A format and its settings.

    settings: for the row of a table; ADAPTIVE says what its last word means.
    compress: text -> the compressed text, always the same.
    max_bytes: the longest text that it is asked to compress, train and held-out text together.
    """

    settings: str
    compress: Callable[[bytes], bytes]
    max_bytes: float


def scores(train: Ids, held_out: Mapping[str, Ids], vocab_size: int) -> dict[str, dict[str, float]]:
    """Bits per id of each held-out split, by every compressor that can take it after train.

    Returns:
        split -> name in COMPRESSORS -> bits; empty for all splits if the vocabulary does not fit into a byte.
    """
    result: dict[str, dict[str, float]] = {split: {} for split in held_out}
    if vocab_size > MAX_SYMBOLS:
        return result
    alone = _as_bytes(train)
    texts = {split: alone + _as_bytes(ids) for split, ids in held_out.items()} | {TRAIN: alone}
    scored = [
        (name, split)
        for name, compressor in COMPRESSORS.items()
        for split in held_out
        if len(texts[split]) <= compressor.max_bytes
    ]
    tasks = [*dict.fromkeys((name, TRAIN) for name, _ in scored), *scored]
    with ThreadPoolExecutor(n_cores()) as pool:  # compressors release the interpreter; PPMd takes 0.3 GB in each
        compressed = pool.map(lambda task: len(COMPRESSORS[task[0]].compress(texts[task[1]])), tasks)
        sizes = dict(zip(tasks, compressed, strict=True))
    for name, split in scored:
        result[split][name] = 8 * (sizes[name, split] - sizes[name, TRAIN]) / len(held_out[split])
    return result


def _as_bytes(ids: Ids) -> bytes:
    """(N,) ids -> N bytes."""
    return np.asarray(ids, np.uint8).tobytes()


# 7-Zip's variant. It ends at once at Ctrl-C, which all processes of a terminal get.
PPMD = """
import signal, sys, pyppmd
signal.signal(signal.SIGINT, signal.SIG_DFL)
encoder = pyppmd.Ppmd7Encoder(6, 256 << 20)
sys.stdout.buffer.write(encoder.encode(sys.stdin.buffer.read()) + encoder.flush())
"""


def _ppmd(text: bytes) -> bytes:
    """In a process: pyppmd takes the interpreter so often that two threads are slower than one after the other."""
    return subprocess.run([sys.executable, "-c", PPMD], input=text, stdout=subprocess.PIPE, check=True).stdout


COMPRESSORS = {
    "xz": Compressor(
        "preset 9e, dictionary of 64 MiB; adaptive",
        # the bare stream: a file ending in .xz is padded to a multiple of 4 bytes
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
