"""The section on attention, from a study of a small model with several heads."""

from types import SimpleNamespace

import numpy as np
import pytest
from interpret.small import CPU, PARAMS, TOKENIZER, gpt, random_text

from bukva.base.files import sha256, write_text
from bukva.experiments.revisions import Revision
from bukva.interpret.study import study
from bukva.pipeline.stages import trained_models
from bukva.report.attention import attention_report
from bukva.report.page import attention as section

pytestmark = pytest.mark.slow  # the study takes ten seconds

LAYERS = HEADS = 2


@pytest.fixture(scope="module")
def found():
    return study({"untrained": gpt(sharp=False), "trained": gpt()}, TOKENIZER,
                 {"train": random_text(300), "val": random_text(60, seed=5)}, PARAMS, CPU)  # fmt: skip


@pytest.fixture
def studied(found, tmp_path):
    """The folder of the study, beside the model that it is of."""
    weights = tmp_path / trained_models()["gpt"].folder / "best.safetensors"
    write_text(weights, "weights")
    attention_report(found, tmp_path / "attention", sha256(weights))
    return tmp_path / "attention"


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
    page, specs = section.attention(experiment(studied), studied)
    values = [[value for value, _ in values] for _, _, values in page["choices"]]
    assert values == [list(range(LAYERS)), list(range(HEADS))]
    assert set(specs["weights"]) == {f"{layer} {head}" for layer in range(LAYERS) for head in range(HEADS)}
    for layer, head in np.ndindex(LAYERS, HEADS):
        np.testing.assert_allclose(
            drawn(specs["weights"][f"{layer} {head}"]), found.weights["trained"][layer, head], atol=0.006
        )


def test_heads_are_in_the_order_of_what_they_are_worth(studied, found):
    page, specs = section.attention(experiment(studied), studied)
    [rows] = specs["worth"][""]["datasets"].values()
    lost = np.array(found.numbers["worth"]["heads_uniform"])
    assert [row["value"] for row in rows] == sorted(lost.flatten().tolist(), reverse=True)
    for row in rows:
        layer, head = (
            int(word) - 1 for word in (row["label"].split()[1].strip(","), row["label"].split()[3].strip(":"))
        )
        assert row["value"] == lost[layer, head]
        assert row["label"].endswith(f": {page['rows'][layer][1 + head]}")


def test_the_weights_of_another_model_are_not_shown(studied):
    write_text(studied.parent / trained_models()["gpt"].folder / "best.safetensors", "others")
    page, specs = section.attention(experiment(studied), studied)
    assert page["missing"].startswith(
        "The attention of this GPT has not been studied. `dvc exp apply two`, then `bukva"
    )
    assert specs == {}
