"""The whole study, and its report."""

import json

import numpy as np
import pytest
from studies.small import CPU, TOKENIZER, T, gpt, nh, random_text

from bukva.studies.attention_study import default_sentence, study
from bukva.studies.heads import DIFFUSE


def test_the_default_sentence_is_a_long_enough_line_or_the_beginning():
    assert default_sentence(TOKENIZER, TOKENIZER.encode("аббб\nа\nвва аб\nб"), 5) == "вва а"
    assert default_sentence(TOKENIZER, TOKENIZER.encode("аб\nв\nг"), 5) == "аб\nв\n"


@pytest.fixture(scope="module")
def found():
    splits = {"train": random_text(3000), "val": random_text(400, seed=5)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("bukva.studies.attention_study.WINDOWS", 5)
        patch.setattr("bukva.studies.attention_study.LEAK_STEPS", 3)
        return study({"untrained": gpt(sharp=False), "trained": gpt()}, TOKENIZER, splits, "ба!", CPU)


def test_a_study_has_its_numbers_and_can_be_written_as_json(found):
    assert json.loads(json.dumps(found)) == found
    assert found["windows"] == {"n": 5, "length": T}
    assert found["sentence"] == "ба!"
    assert np.shape(found["weights"]["trained"]) == (2, nh, 3, 3)
    np.testing.assert_allclose(np.sum(found["weights"]["trained"], axis=-1), 1, rtol=1e-6)
    untrained, trained = ([head for head in found["heads"] if head["state"] == state] for state in found["weights"])
    assert min(head["entropy"] for head in untrained) > 0.99 > min(head["entropy"] for head in trained)
    assert {head["role"] for head in untrained} == {DIFFUSE}  # the attention of an untrained model is nearly uniform
