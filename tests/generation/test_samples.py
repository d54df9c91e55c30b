"""The page of samples, from small models."""

import numpy as np
import pytest
import torch

from bukva.config.load import read_params
from bukva.generation.samples import answer, to_json
from bukva.models.bigram import BigramConfig
from bukva.models.device import Machine
from bukva.models.folder import load_model, save_model
from bukva.models.gpt import GPTConfig
from bukva.models.registry import build
from bukva.text.tokenizers.char import CharTokenizer

CPU = Machine(torch.device("cpu"), torch.float32)


def params(**changes):
    return read_params().sample.model_copy(update={"n_chars": 11} | changes)


def answers_of(folders, prompts=("\n", "аб"), **changes):
    """prompt -> what models wrote at the temperature of params.yaml."""
    found, temperature = answer(folders, list(prompts), params(**changes), CPU), params(**changes).temperature
    return [(prompt, [one for one in given if one.temperature == temperature]) for prompt, given in found]


def saved(folder, config, counted=None):
    """A model whose trained weights differ from its untrained ones."""
    torch.manual_seed(1)
    weights = {key: build(config).state_dict() for key in ("best", "initial")}
    if counted is not None:
        torch.nn.init.normal_(weights["best"]["lm_head.weight"], std=0.3)
    save_model(folder, config, CharTokenizer(["\n", "а", "б"]), weights, counted=counted)
    return folder


@pytest.fixture
def folder(tmp_path):
    return saved(tmp_path / "m", BigramConfig(vocab_size=3, block_size=8))


@pytest.fixture
def counting(tmp_path):
    config = GPTConfig(3, 1, 1, 8, 5, 0.0, ngrams="input", ngram_orders=(3,))
    return saved(tmp_path / "gpt", config, np.array([0, 1, 2, 1, 1, 2, 0, 2, 1, 0, 1], np.uint8))


def continuations(folder, prompts=("\n", "аб"), **changes):
    """What one trained model wrote after each prompt."""
    return [given[-1].written for _, given in answers_of({"bigram": folder}, prompts, **changes)]


def test_of_a_gpt_with_a_memory_the_network_alone_answers_before_the_whole(counting, folder):
    for prompt, given in answers_of({"bigram": folder, "GPT": counting}):
        assert all(one.text.startswith(f"{prompt}│") and len(one.text) == len(prompt) + 12 for one in given)
        assert [(one.model, one.state) for one in given] == [
            ("bigram", "untrained"),
            ("bigram", "trained"),
            ("GPT", "untrained, without its n-grams"),
            ("GPT", "untrained"),
            ("GPT", "trained, without its n-grams"),
            ("GPT", "trained"),
        ]
        assert len({one.text for one in given[2:]}) > 2


def test_what_a_gpt_with_a_memory_writes_is_drawn_from_its_own_predictions(counting):
    """At temperature 0: beyond the block as within it, each character is the likeliest after the last ones."""
    _, given = answers_of({"GPT": counting}, ["а"], temperature=0.0, n_chars=7)[0]
    model, tokenizer = load_model(counting)
    assert given[2].text != given[3].text
    for writer, written in ((model.alone(), given[2]), (model, given[3])):
        ids = tokenizer.encode("а").tolist()
        while len(ids) < model.block_size:
            ids.append(int(writer(torch.tensor([ids]))[0, -1].argmax()))
        assert written.text.replace("│", "").startswith(tokenizer.decode(np.array(ids)))


def test_trained_models_write_at_other_temperatures_too(folder):
    settings = params(temperature=0.8)
    answers = answer({"bigram": folder}, ["\n", "аб"], settings, CPU)
    for (_, given), (_, at_one) in zip(answers, answers_of({"bigram": folder}, temperature=1.0), strict=True):
        assert [(one.state, one.temperature) for one in given] == [
            ("untrained", 0.8), ("trained", 0.5), ("trained", 0.8), ("trained", 1.0)
        ]  # fmt: skip
        assert given[3].text == at_one[-1].text
    found = to_json(answers, settings)
    assert found["prompts"] == ["\n", "аб"]
    assert found["answers"][-1] == {
        "prompt": 1, "model": "bigram", "state": "trained", "temperature": 1.0, "read": "аб",
        "written": answers[1][1][3].written,
    }  # fmt: skip


def test_characters_are_drawn_as_params_yaml_says_by_random_numbers_of_seed_and_number_of_the_prompt(folder):
    first, second = continuations(folder, prompts=["б", "аб"])  # a bigram sees only the last character
    assert first != second
    first, second = continuations(folder)
    assert continuations(folder, prompts=["\n", "аб", "а"])[:2] == [first, second]
    assert continuations(folder, prompts=["б", "аб"])[1] == second
    assert continuations(folder, seed=params().seed + 1) != [first, second]
    likeliest = continuations(folder, temperature=0.0)
    assert continuations(folder, top_k=1) == continuations(folder, top_p=1e-9) == likeliest != [first, second]
    _, given = answers_of({"bigram": folder, "again": folder})[0]
    assert given[1].text == given[3].text == f"\n│{first}"
