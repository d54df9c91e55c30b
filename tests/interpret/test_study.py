"""The whole study, and its report."""

import json

import numpy as np
import pytest
from interpret.small import CPU, PARAMS, TOKENIZER, T, gpt, nh, random_text

from bukva.interpret.heads import DIFFUSE
from bukva.interpret.study import Study, passage, study


def test_a_passage_is_a_long_enough_line_or_the_beginning():
    assert passage(TOKENIZER, TOKENIZER.encode("аббб\nа\nвва аб\nб"), 5) == "вва а"
    assert passage(TOKENIZER, TOKENIZER.encode("аб\nв\nг"), 5) == "аб\nв\n"


@pytest.fixture(scope="module")
def found() -> Study:
    splits = {"train": random_text(3000), "val": random_text(400, seed=5)}
    params = PARAMS.model_copy(update={"attention_sentence": "ба!"})
    return study({"untrained": gpt(sharp=False), "trained": gpt()}, TOKENIZER, splits, params, CPU)


def test_a_study_has_its_numbers_and_can_be_written_as_json(found):
    assert json.loads(json.dumps(found.numbers)) == found.numbers
    assert found.numbers["windows"] == {"n": 5, "length": T}
    assert found.numbers["sentence"] == "ба!"
    assert found.weights["trained"].shape == (2, nh, 3, 3)
    np.testing.assert_allclose(found.weights["trained"].sum(-1), 1, rtol=1e-6)
    heads = found.numbers["heads"]  # the attention of an untrained model is nearly uniform
    assert np.min(heads["untrained"]["entropy"]) > 0.99 > np.min(heads["trained"]["entropy"])
    assert {role["name"] for row in heads["untrained"]["role"] for role in row} == {DIFFUSE}
