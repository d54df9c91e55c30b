"""Score general-purpose compressors as language models.

The score of a compressor is the number of bits that the held-out text adds to the compressed training split, per
character of the held-out text. C is the compressed size in bytes:

    8 (C(train + held out) - C(train)) / characters of the held-out text

Before compression, each character is encoded as one byte, its id. In UTF-8, a Cyrillic letter would have two bytes, and
the score of PPMd would be worse by 0.3 bits per character.
"""

import lzma
import math
import subprocess
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from bukva.core.machine import n_cores
from bukva.text.ids import Ids

ADAPTIVE = (
    "adaptive: the compressor reads the training split first (at most 33.6 million characters of it), and keeps "
    "learning from the held-out text"
)
MAX_READ = 2**25  # ids of train that a compressor reads at most; more do not fit into the memory of PPMd
N_EXCERPTS = 16  # evenly spaced excerpts of train that it reads of a longer text
MAX_SYMBOLS = 256  # number of different ids that one byte can represent
# Program that compresses its standard input with 7-Zip's variant of PPMd. Ctrl-C also interrupts this program. With the
# default handler, it ends immediately.
PPMD = """
import signal, sys, pyppmd
signal.signal(signal.SIGINT, signal.SIG_DFL)
encoder = pyppmd.Ppmd7Encoder(6, 256 << 20)
sys.stdout.buffer.write(encoder.encode(sys.stdin.buffer.read()) + encoder.flush())
"""


@dataclass(frozen=True)
class Compressor:
    """A compression format, and its settings for a table of scores (ADAPTIVE explains their last word, "adaptive")."""

    settings: str
    compress: Callable[[bytes], bytes]  # deterministic
    max_bytes: float  # of train and the held-out text together; longer texts take minutes (docs/dev/decisions.md)


def _xz(text: bytes) -> bytes:
    # .lzma instead of .xz, because .xz pads its content to a multiple of 4 bytes
    return lzma.compress(text, format=lzma.FORMAT_ALONE, preset=9 | lzma.PRESET_EXTREME)


def _ppmd(text: bytes) -> bytes:
    return subprocess.run([sys.executable, "-c", PPMD], input=text, stdout=subprocess.PIPE, check=True).stdout


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
    texts = {"train": _as_bytes(train)}
    texts |= {split: texts["train"] + _as_bytes(ids) for split, ids in held_out.items()}
    jobs = [
        (name, split) for name, each in COMPRESSORS.items() for split in texts if len(texts[split]) <= each.max_bytes
    ]
    with ThreadPoolExecutor(n_cores()) as pool:  # compressors release the GIL; each process of PPMd takes 0.3 GB
        compressed = pool.map(lambda job: len(COMPRESSORS[job[0]].compress(texts[job[1]])), jobs)
        sizes = dict(zip(jobs, compressed, strict=True))
    return {
        split: {
            name: 8 * (sizes[name, split] - sizes[name, "train"]) / len(ids)
            for name in COMPRESSORS
            if (name, split) in sizes
        }
        for split, ids in held_out.items()
    }


def _as_bytes(ids: Ids) -> bytes:
    return np.asarray(ids, np.uint8).tobytes()
