"""The page of samples, from small models."""

import numpy as np
import pytest
import torch

from bukva.backends.device import Machine
from bukva.core.params import read_params
from bukva.evaluation.samples import answer, to_json
from bukva.models.bigram import BigramConfig
from bukva.models.folder import load_model, save_model
from bukva.models.gpt import GPTConfig
from bukva.models.registry import build
from bukva.text.tokenizers import CharTokenizer
from tests.support.imports import SHIPPED

CPU = Machine(torch.device("cpu"), torch.float32)


def params(**changes):
    return read_params(SHIPPED).sample.model_copy(update={"n_chars": 11} | changes)


def answers_of(folders, prompts=("\n", "аб"), **changes):
    """For each prompt, what models wrote at the temperature of params.yaml."""
    settings = params(**changes)
    answers = [one for one in answer(folders, prompts, settings, CPU) if one["temperature"] == settings.temperature]
    return [[one for one in answers if one["prompt"] == number] for number in range(len(prompts))]


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
    return [given[-1]["written"] for given in answers_of({"bigram": folder}, prompts, **changes)]


def test_a_gpt_with_a_memory_writes_the_likeliest_by_its_network_alone_and_then_as_a_whole(counting, folder):
    """At temperature 0, each character is the most likely one after all before it, up to `block_size` characters."""
    [given] = answers_of({"bigram": folder, "GPT": counting}, ["а"], temperature=0.0, n_chars=7)
    assert [f"{one['model']} {one['state']}" for one in given] == [
        "bigram untrained", "bigram trained", "GPT untrained, without its n-grams", "GPT untrained",
        "GPT trained, without its n-grams", "GPT trained",
    ]  # fmt: skip
    model, tokenizer = load_model(counting)
    *_, alone, whole = given
    assert alone["written"] != whole["written"]
    for writer, one in ((model.without_ngrams(), alone), (model, whole)):
        assert (one["read"], len(one["written"])) == ("а", 7)
        ids = tokenizer.encode("а").tolist()
        while len(ids) < model.block_size:
            ids.append(int(writer(torch.tensor([ids]))[0, -1].argmax()))
        assert ("а" + one["written"]).startswith(tokenizer.decode(np.array(ids)))


def test_trained_models_write_at_other_temperatures_too(folder):
    settings = params(temperature=0.8)
    answers = answer({"bigram": folder}, ["\n", "аб"], settings, CPU)
    for number, at_one in enumerate(answers_of({"bigram": folder}, temperature=1.0)):
        given = answers[4 * number : 4 * number + 4]
        assert [(one["state"], one["temperature"]) for one in given] == [
            ("untrained", 0.8), ("trained", 0.5), ("trained", 0.8), ("trained", 1.0)
        ]  # fmt: skip
        assert given[3]["written"] == at_one[-1]["written"]
    found = to_json(answers, ["\n", "аб"], settings)
    assert found["prompts"] == ["\n", "аб"]
    assert found["answers"][-1] == {
        "prompt": 1, "model": "bigram", "state": "trained", "temperature": 1.0, "read": "аб",
        "written": given[3]["written"],
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
    given = answers_of({"bigram": folder, "again": folder})[0]
    assert given[1]["written"] == given[3]["written"] == first
