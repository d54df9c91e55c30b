"""The reports on attention and counting and the section of the page, from studies of small models."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from interpret.small import CPU, PARAMS, TOKENIZER, gpt, random_text
from interpret.test_counting import RECIPE

from bukva.core.files import sha256, write_text
from bukva.interpret.counting import Counting
from bukva.interpret.study import study
from bukva.models.gpt import GPT, GPTConfig
from bukva.project.revisions import Revision
from bukva.project.stages import trained_models
from bukva.report import attention as module
from bukva.report.attention import attention_report, section
from bukva.report.counting import _rows, _width, passage_page, table
from bukva.text.tokenizers.byte import ByteTokenizer

pytestmark = pytest.mark.slow  # a study and its eight figures take seconds

LAYERS = HEADS = 2


@pytest.fixture(scope="module")
def found():
    return study({"untrained": gpt(sharp=False), "trained": gpt()}, TOKENIZER,
                 {"train": random_text(300), "val": random_text(60, seed=5)}, PARAMS, CPU)  # fmt: skip


@pytest.fixture(scope="module")
def studied(found, tmp_path_factory):
    """The folder of the study, beside the model that it is of."""
    folder = tmp_path_factory.mktemp("studied")
    weights = folder / trained_models()["gpt"].folder / "best.safetensors"
    write_text(weights, "weights")
    attention_report(found, folder / "attention", sha256(weights))
    return folder / "attention"


def experiment(studied):
    return SimpleNamespace(folder=studied.parent, result=SimpleNamespace(revision=Revision("two", "0" * 40)))


def drawn(spec):
    """(T, T) weights of a chart."""
    [rows] = spec["datasets"].values()
    T = 1 + max(int(row["query"][:3]) for row in rows)
    weights = np.zeros((T, T))
    for row in rows:
        weights[int(row["query"][:3]), int(row["key"][:3])] = row["weight"]
    return weights


def test_every_choice_shows_the_weights_of_its_own_head(studied, found):
    page, specs = section(experiment(studied), studied)
    values = [[value for value, _ in values] for _, _, values in page["choices"]]
    assert values == [list(range(LAYERS)), list(range(HEADS))]
    assert set(specs["weights"]) == {f"{layer} {head}" for layer in range(LAYERS) for head in range(HEADS)}
    for layer, head in np.ndindex(LAYERS, HEADS):
        np.testing.assert_allclose(
            drawn(specs["weights"][f"{layer} {head}"]), found.weights["trained"][layer, head], atol=0.006
        )


def test_heads_are_in_the_order_of_what_they_are_worth(studied, found):
    page, specs = section(experiment(studied), studied)
    [(whole, *rows)] = specs["worth"][""]["datasets"].values()
    assert (whole["label"], whole["value"]) == ("all heads", found.numbers["worth"]["all_uniform"])
    lost = np.array(found.numbers["worth"]["heads_uniform"])
    assert [row["value"] for row in rows] == sorted(lost.flatten().tolist(), reverse=True)
    for row in rows:
        words = row["label"].split()
        layer, head = int(words[1].strip(",")) - 1, int(words[3].strip(":")) - 1
        assert row["value"] == lost[layer, head]
        assert row["label"].endswith(f": {page['rows'][layer][1 + head]}")


def test_the_weights_of_another_model_are_not_shown(studied, monkeypatch):
    monkeypatch.setattr(module, "sha256", lambda _: "of another")
    page, specs = section(experiment(studied), studied)
    assert page["missing"].startswith(
        "The attention of this GPT has not been studied. `dvc exp apply two`, then `bukva"
    )
    assert specs == {}


def test_models_whose_ids_are_not_characters_are_shown_with_the_characters_of_their_ids(tmp_path):
    text = {"train": "мир и война, war и мир\n“ — да!\n" * 31, "val": "война и мир —\nмир да “ war!\n" * 5}
    tokenizer, unit = ByteTokenizer(), "byte"
    splits = {split: tokenizer.encode(text[split]) for split in text}
    torch.manual_seed(1)
    model = GPT(GPTConfig(len(tokenizer), 1, 1, 8, 13, 0.0, ngrams="input", ngram_orders=(2, 4))).eval()
    model.count(splits["train"])
    plain = GPT(GPTConfig(len(tokenizer), 1, 1, 8, 13, 0.0)).eval()
    found = study({"untrained": plain, "trained": plain}, tokenizer, splits, PARAMS, CPU)
    assert found.numbers["unit"] == found.numbers["forecast"]["unit"] == unit
    parts = found.numbers["parts"]
    assert len(parts) == found.weights["trained"].shape[-1] <= 13
    assert found.numbers["sentence"].startswith("".join(parts[:-1]))  # the last byte may be a part of a letter
    assert {f"previous {unit}", f"same {unit}"} < set(found.numbers["heads"]["trained"]["roles"])
    lengths = {split: np.array([len(ids)]) for split, ids in splits.items()}
    numbers = Counting(model, tokenizer, splits, lengths, CPU).study(PARAMS, RECIPE)
    chars = numbers["passage"]["chars"]
    assert (numbers["unit"], numbers["scores"]["chars"]) == (unit, len(text["val"]) - 1)
    assert "".join(row["char"] for row in chars) in text["val"]
    assert sum(map(len, _rows(chars))) == len(chars)
    assert max(sum(map(_width, row)) for row in _rows(chars)) <= 60
    passage_page(numbers, tmp_path / "passage.html")
    assert f"each {unit}, counting or learning" in (tmp_path / "passage.html").read_text()
    assert next(iter(table(numbers))).startswith("bits per character")
