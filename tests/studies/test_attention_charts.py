"""The charts of the attention study and the section of the page, from studies of small models."""

import numpy as np
import pytest
import torch
from studies.small import CPU, TOKENIZER, gpt, random_text

from bukva.models.gpt import GPT, GPTConfig
from bukva.report.page.attention_section import section
from bukva.studies.attention_charts import attention_report, weights_of_heads
from bukva.studies.attention_study import study
from bukva.text.tokenizers.base import ByteTokenizer

pytestmark = pytest.mark.slow  # a study and its eight figures take seconds

LAYERS = HEADS = 2


@pytest.fixture(scope="module")
def found():
    return study({"untrained": gpt(sharp=False), "trained": gpt()}, TOKENIZER,
                 {"train": random_text(300), "val": random_text(60, seed=5)}, "", CPU)  # fmt: skip


@pytest.fixture(scope="module")
def studied(found, tmp_path_factory):
    """The folder of the study."""
    folder = tmp_path_factory.mktemp("studied") / "attention"
    attention_report(found, folder, "digest")
    return folder


def drawn(spec):
    """(T, T) weights of a chart."""
    [rows] = spec["datasets"].values()
    T = 1 + max(int(row["query"][:3]) for row in rows)
    weights = np.zeros((T, T))
    for row in rows:
        weights[int(row["query"][:3]), int(row["key"][:3])] = row["weight"]
    return weights


def test_every_choice_shows_the_weights_of_its_own_head(studied, found):
    page = section(studied, "digest")
    assert len(page["weights"]) == LAYERS * HEADS
    for (name, spec), (layer, head) in zip(page["weights"].items(), np.ndindex(LAYERS, HEADS), strict=True):
        assert name == f"layer {layer + 1}, head {head + 1}: {page['rows'][layer][1 + head]}"
        np.testing.assert_allclose(drawn(spec), found["weights"]["trained"][layer][head], atol=0.006)


def test_heads_are_in_the_order_of_what_they_are_worth(studied, found):
    page = section(studied, "digest")
    [(whole, *rows)] = page["worth"]["datasets"].values()
    assert (whole["label"], whole["value"]) == ("all heads", round(found["worth"]["all_uniform"], 3))
    lost = dict(zip(page["weights"], np.ravel(found["worth"]["heads_uniform"]), strict=True))
    assert [row["label"] for row in rows] == sorted(lost, key=lost.__getitem__, reverse=True)
    assert {row["label"]: row["value"] for row in rows} == {name: round(value, 3) for name, value in lost.items()}


def test_more_heads_are_drawn_than_altair_draws_by_default(found):
    weights = {"trained": np.full((LAYERS, HEADS, 60, 60), 0.5).tolist()}  # more than 5,000
    [rows] = weights_of_heads(found | {"weights": weights, "parts": ["а"] * 60}, "trained")["datasets"].values()
    assert len(rows) == LAYERS * HEADS * 60**2


def test_the_weights_of_another_model_are_not_shown(studied):
    page = section(studied, "of another")
    assert page["missing"].startswith("The attention of this GPT has not been studied. Run `bukva attention`")
    assert list(page) == ["missing"]


def test_models_whose_ids_are_not_characters_are_shown_with_the_characters_of_their_ids():
    text = {"train": "мир и война, war и мир\n“ — да!\n" * 31, "val": "война и мир —\nмир да “ war!\n" * 5}
    tokenizer, unit = ByteTokenizer(), "byte"
    splits = {split: tokenizer.encode(text[split]) for split in text}
    torch.manual_seed(1)
    plain = GPT(GPTConfig(len(tokenizer), 1, 1, 8, 13, 0.0)).eval()
    found = study({"untrained": plain, "trained": plain}, tokenizer, splits, "", CPU)
    assert found["unit"] == unit
    parts = found["parts"]
    assert len(parts) == len(found["weights"]["trained"][0][0]) <= 13
    assert found["sentence"].startswith("".join(parts[:-1]))  # the last byte may be a part of a letter
    assert {f"previous {unit}", f"same {unit}"} < set(found["heads"][0]["roles"])
