"""Plans and a tiny project, for the tests of planning."""

import numpy as np
from imports import SHIPPED
from ruamel.yaml import YAML

from bukva.config.load import PARAMS, parse_params
from bukva.planning.plan import Plan, Size
from bukva.project.stages import paths
from bukva.text.tokenizers import save_tokenizer
from bukva.text.tokenizers.char import CharTokenizer

TEXT = SHIPPED.read_text(encoding="utf-8")
RAW = YAML(typ="safe").load(TEXT)
ALL = parse_params(RAW, "params.yaml")
TOY = [Size(1, 32), Size(1, 64)]
BLOCK_SIZE, VOCABULARY = 11, "абвгдеё"


def plan(
    seconds=939,
    train_chars=500_000,
    n_parameters=1000,
    seconds_per_update=0.5,
    chars_per_update=70,
    seconds_per_scoring=3.0,
    size=TOY[0],
):
    """Return a plan for a budget of `seconds`."""
    return Plan(seconds, train_chars, size, n_parameters, 7, chars_per_update, seconds_per_update, seconds_per_scoring)


def write_project(root):
    """Write a project with a tiny split text, and with parameters that use one thread."""
    text = TEXT.replace("  threads: 0", "  threads: 1").replace("  block_size: 64", f"  block_size: {BLOCK_SIZE}")
    (root / PARAMS).write_text(text, encoding="utf-8")
    for name in ("split", "tokens"):
        (root / paths()[name]).mkdir(parents=True)
    save_tokenizer(root / paths()["tokens"], CharTokenizer.train([VOCABULARY]))
    for split, n in (("train", 307), ("val", 101)):
        np.save(root / paths()["split"] / f"{split}.npy", (np.arange(n) % len(VOCABULARY)).astype(np.uint8))
