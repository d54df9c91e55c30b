"""A tiny project, for the tests of commands."""

import numpy as np

from bukva.core.params import PARAMS
from bukva.project.stages import paths
from bukva.text.tokenizers import CharTokenizer, save_tokenizer
from tests.support.imports import SHIPPED

BLOCK_SIZE, VOCABULARY = 11, "абвгдеё"


def write_project(root):
    """Write a project with a tiny split text, and with parameters that use one thread."""
    text = SHIPPED.read_text(encoding="utf-8").replace("  threads: 0", "  threads: 1")
    (root / PARAMS).write_text(text.replace("  block_size: 64", f"  block_size: {BLOCK_SIZE}"), encoding="utf-8")
    for name in ("split", "tokens"):
        (root / paths()[name]).mkdir(parents=True)
    save_tokenizer(root / paths()["tokens"], CharTokenizer.train([VOCABULARY]))
    for split, n in (("train", 307), ("val", 101)):
        np.save(root / paths()["split"] / f"{split}.npy", (np.arange(n) % len(VOCABULARY)).astype(np.uint8))
