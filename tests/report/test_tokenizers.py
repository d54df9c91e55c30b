"""The reports on attention and counting of models whose ids are not characters."""

import numpy as np
import pytest
import torch
from interpret.small import CPU, PARAMS
from interpret.test_counting import RECIPE

from bukva.interpret.counting import Counting
from bukva.interpret.study import study
from bukva.models.gpt import GPT, GPTConfig
from bukva.report.attention import attention_report
from bukva.report.counting import _rows, _width, counting_report, table
from bukva.tokenizers.bpe import BPETokenizer
from bukva.tokenizers.byte import ByteTokenizer

TEXT = {"train": "мир и война, war и мир\n“ — да!\n" * 31, "val": "война и мир —\nмир да “ war!\n" * 5}
TOKENIZERS = {"byte": ByteTokenizer(), "token": BPETokenizer.train([TEXT["train"]], 277)}
T = 13

pytestmark = pytest.mark.parametrize("unit", TOKENIZERS)


def splits(unit):
    return {split: TOKENIZERS[unit].encode(text) for split, text in TEXT.items()}


def gpt(unit, **changes):
    torch.manual_seed(1)
    model = GPT(GPTConfig(len(TOKENIZERS[unit]), 1, 2, 8, T, 0.0, **changes)).eval()
    model.count(splits(unit)["train"])
    return model


def test_the_attention_on_a_passage_is_labelled_with_its_characters(unit, tmp_path):
    states = {"untrained": gpt(unit), "trained": gpt(unit)}
    found = study(states, TOKENIZERS[unit], splits(unit), PARAMS, CPU)
    numbers = found.numbers
    assert numbers["unit"] == numbers["forecast"]["unit"] == unit
    assert len(numbers["parts"]) == found.weights["trained"].shape[-1] <= T
    assert numbers["sentence"].startswith("".join(numbers["parts"][:-1]))  # the last byte may be a part of a letter
    assert {f"previous {unit}", f"same {unit}"} < set(numbers["heads"]["trained"]["roles"])
    attention_report(found, tmp_path / "report", "digest")
    assert len(list((tmp_path / "report").iterdir())) == 9


def test_counting_is_shown_for_each_id(unit, tmp_path):
    lengths = {split: np.array([len(ids)]) for split, ids in splits(unit).items()}
    model = gpt(unit, ngrams="input", ngram_orders=(2, 4))
    numbers = Counting(model, TOKENIZERS[unit], splits(unit), lengths, CPU).study(PARAMS, RECIPE)
    assert numbers["unit"] == unit
    assert numbers["scores"]["chars"] == len(TEXT["val"]) - 1
    shown = "".join(row["char"] for row in numbers["passage"]["chars"])
    assert shown in TEXT["val"]
    assert sum(map(len, _rows(numbers["passage"]["chars"]))) == len(numbers["passage"]["chars"])
    assert max(sum(map(_width, row)) for row in _rows(numbers["passage"]["chars"])) <= 60
    counting_report(numbers, tmp_path / "report")
    assert f"each {unit}, counting or learning" in (tmp_path / "report" / "passage.html").read_text()
    assert next(iter(table(numbers))).startswith("bits per character")
