"""Samples and figures, from small models."""

import pandas as pd
import pytest
import torch

from bukva.base.errors import BukvaError
from bukva.config.load import read_params
from bukva.generation.samples import Answer, answer, page
from bukva.models.bigram import BigramConfig
from bukva.models.folder import save_model
from bukva.models.registry import build
from bukva.report.figures import losses
from bukva.tokenizers.char import CharTokenizer
from bukva.training.device import Machine

CPU = Machine(torch.device("cpu"), torch.float32)


def numbers(**changes):
    return read_params().sample.model_copy(update={"prompts": ["\n", "аб"], "n_chars": 11} | changes)


@pytest.fixture
def folder(tmp_path):
    config, tokenizer = BigramConfig(vocab_size=3, block_size=8), CharTokenizer(["\n", "а", "б"])
    torch.manual_seed(1)
    save_model(tmp_path / "m", config, tokenizer, {key: build(config).state_dict() for key in ("best", "initial")})
    return tmp_path / "m"


def test_untrained_and_trained_models_answer_every_prompt(folder):
    answers = answer({"bigram": folder, "GPT": folder}, numbers(), CPU)
    assert [prompt for prompt, _ in answers] == ["\n", "аб"]
    for prompt, given in answers:
        assert [(one.model, one.state) for one in given] == [
            ("bigram", "untrained"), ("bigram", "trained"), ("GPT", "untrained"), ("GPT", "trained"),
        ]  # fmt: skip
        assert all(one.text.startswith(f"{prompt}│") and len(one.text) == len(prompt) + 12 for one in given)
        assert given[1].text == given[3].text  # the same weights and the same seed


def test_one_prompt_does_not_change_anothers_answer(folder):
    alone = answer({"bigram": folder}, numbers(prompts=["аб"]), CPU)
    assert alone[0] == answer({"bigram": folder}, numbers(), CPU)[1]


def test_a_prompt_outside_the_vocabulary_is_named(folder):
    with pytest.raises(BukvaError, match=r"sample.prompts: 'аж'.*U\+0436"):
        answer({"bigram": folder}, numbers(prompts=["аж"]), CPU)


def test_the_page_shows_line_feeds_and_closes_no_block():
    text = page([("\n", [Answer("GPT", "trained", "\n│```\n# б")])], numbers(top_k=5, top_p=0.9))
    assert "## `\\n`" in text
    assert "    │```\n    # б" in text
    assert "the likeliest 5, of these the fewest that hold 0.9 of the probability" in text


def test_the_losses_are_drawn_to_the_same_bytes(tmp_path):
    curve = pd.DataFrame({"step": [0, 5], "train_nats_per_char": [None, 2.5], "val_nats_per_char": [4.0, 2.6]})
    score = {"val": {"bits_per_char": 3.0}, "test": {"bits_per_char": 3.1}}
    metrics = {"floors": {"val": {"unigram": 4.8, "bigram_exact": 3.7}}, "bigram": score, "gpt": score}
    for name in ("a.png", "b.png"):
        losses({"bigram": curve, "gpt": curve}, metrics, tmp_path / name)
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
