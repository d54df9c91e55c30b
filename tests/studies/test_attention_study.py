"""The study of attention against loops over forward passes, and its charts."""

import json
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from studies.small import CPU, TOKENIZER, T, V, gpt, nh, random_text
from torch import nn

from bukva.models.attention import attend_explicit
from bukva.models.gpt import GPT, GPTConfig
from bukva.models.window_rule import nats_of
from bukva.report.page import build
from bukva.studies.attention_charts import attention_report, weights_of_heads
from bukva.studies.attention_study import ablate_heads, default_sentence, leak, scale_table, score_by_context, study
from bukva.studies.heads import DIFFUSE, averaging_kernel, replaced_kernels
from bukva.text.held_out import Passage
from bukva.text.tokenizers.base import ByteTokenizer

LAYERS = HEADS = 2


@pytest.fixture(autouse=True, scope="module")
def _short():
    """A study of few windows and updates."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("bukva.studies.attention_study.WINDOWS", 5)
        patch.setattr("bukva.studies.attention_study.LEAK_STEPS", 3)
        yield


def test_the_default_sentence_is_a_long_enough_line_or_the_beginning():
    assert default_sentence(TOKENIZER, TOKENIZER.encode("аббб\nа\nвва аб\nб"), 5) == "вва а"
    assert default_sentence(TOKENIZER, TOKENIZER.encode("аб\nв\nг"), 5) == "аб\nв\n"


@pytest.fixture(scope="module")
def found():
    splits = {"train": random_text(3000), "val": random_text(400, seed=5)}
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


def test_a_head_contributes_what_the_score_loses_without_it():
    model, runs = gpt(), [random_text(200), random_text(90, seed=5)]
    found = ablate_heads(model, [Passage(0, run, 1) for run in runs], TOKENIZER)

    def bits_with(kernel_of):
        with replaced_kernels(model, kernel_of):
            nats = np.concatenate([nats_of(model, run, T, T // 2) for run in runs])
        return nats.mean(dtype=np.float64) / math.log(2)

    learned = bits_with(lambda _: attend_explicit)
    every = bits_with(lambda _: averaging_kernel(torch.tensor([True, True])))
    assert found["bits_per_char"] == pytest.approx(learned, abs=1e-5)
    assert found["all_uniform"] == pytest.approx(every - learned, abs=1e-5)
    assert np.shape(found["heads_uniform"]) == (2, nh)
    for layer, head in np.ndindex(2, nh):
        chosen = torch.arange(nh) == head
        one = bits_with(lambda i, layer=layer, chosen=chosen: averaging_kernel(chosen & (i == layer)))
        assert found["heads_uniform"][layer][head] == pytest.approx(one - learned, abs=1e-5)
        assert abs(one - learned) > 1e-4


def test_a_length_of_context_means_exactly_that_many_characters():
    model, run = gpt(), random_text(60)
    nn.init.normal_(model.wpe.weight)  # so that every position matters
    found = {row["chars"]: row for row in score_by_context(model, run, TOKENIZER, 1000)}
    assert list(found) == [1, 2, 4, 8, 11]
    for n, row in found.items():
        nats = []
        for i in range(T, len(run)):
            logits = model(torch.from_numpy(run[i - n : i].astype(np.int64))[None])[0, -1]
            nats.append(F.cross_entropy(logits, torch.tensor(int(run[i]))).item())
        assert row["bits_per_char"] == pytest.approx(np.mean(nats) / math.log(2), abs=1e-4)
    assert found[T]["standard_error"] == 0 < found[1]["standard_error"]


@pytest.mark.slow
def test_without_the_mask_a_model_copies_its_targets_and_learns_nothing_else():
    torch.manual_seed(1)
    config = GPTConfig(V, 3, nh, 32, 64, 0.0)
    splits = {"train": random_text(20_000), "val": random_text(3000, seed=4)}
    found = leak(config, splits, TOKENIZER, 150, CPU)
    assert (found["n_layer"], found["block_size"], found["steps"][-1]) == (2, 32, 150)
    uniform_bits = math.log2(V)  # the text is noise: this is the best score without looking ahead
    assert found["unmasked"]["in_sight"][-1] < 0.3
    assert found["masked"]["in_sight"][-1] == pytest.approx(uniform_bits, abs=0.1)
    assert found["unmasked"]["out_of_sight"] > uniform_bits - 0.1


def test_random_scores_have_the_variance_of_the_head_size_without_the_scale_and_one_with_it():
    # reference values: 64 random keys, published for the same head sizes
    reference = {4: (0.283, 2.77), 16: (0.587, 1.36), 64: (0.794, 0.58), 256: (0.896, 0.27)}
    rows = scale_table()
    for raw, scaled in zip(rows[::2], rows[1::2], strict=True):
        hs = raw["head_size"]
        assert raw["variance"] == pytest.approx(hs, rel=0.05)
        assert scaled["variance"] == pytest.approx(1, rel=0.05)
        assert scaled["entropy"] == pytest.approx(3.69, abs=0.03)
        if hs in reference:
            assert (raw["peak"], raw["entropy"]) == pytest.approx(reference[hs], abs=0.05)


# ---- charts


@pytest.fixture(scope="module")
def studied(found, tmp_path_factory):
    """A project with the study."""
    root = tmp_path_factory.mktemp("studied")
    attention_report(found, root / "reports/attention", "digest")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(build, "project_root", lambda: root)
        yield


def drawn(spec):
    """(T, T) weights of a chart."""
    [rows] = spec["datasets"].values()
    T = 1 + max(int(row["query"][:3]) for row in rows)
    weights = np.zeros((T, T))
    for row in rows:
        weights[int(row["query"][:3]), int(row["key"][:3])] = row["weight"]
    return weights


@pytest.mark.slow
def test_every_choice_shows_the_weights_of_its_own_head(studied, found):
    page = build.attention("digest")
    assert len(page["weights"]) == LAYERS * HEADS
    for (name, spec), (layer, head) in zip(page["weights"].items(), np.ndindex(LAYERS, HEADS), strict=True):
        assert name == f"layer {layer + 1}, head {head + 1}: {page['rows'][layer][1 + head]}"
        np.testing.assert_allclose(drawn(spec), found["weights"]["trained"][layer][head], atol=0.006)


@pytest.mark.slow
def test_heads_are_in_the_order_of_what_they_are_worth(studied, found):
    page = build.attention("digest")
    [(whole, *rows)] = page["worth"]["datasets"].values()
    assert (whole["label"], whole["value"]) == ("all heads", round(found["worth"]["all_uniform"], 3))
    lost = dict(zip(page["weights"], np.ravel(found["worth"]["heads_uniform"]), strict=True))
    assert [row["label"] for row in rows] == sorted(lost, key=lost.__getitem__, reverse=True)
    assert {row["label"]: row["value"] for row in rows} == {name: round(value, 3) for name, value in lost.items()}


@pytest.mark.slow
def test_more_heads_are_drawn_than_altair_draws_by_default(found):
    weights = {"trained": np.full((LAYERS, HEADS, 60, 60), 0.5).tolist()}  # more than 5,000
    [rows] = weights_of_heads(found | {"weights": weights, "parts": ["а"] * 60}, "trained")["datasets"].values()
    assert len(rows) == LAYERS * HEADS * 60**2


@pytest.mark.slow
def test_the_weights_of_another_model_are_not_shown(studied):
    assert build.attention("digest")
    assert build.attention("of another") == {}


@pytest.mark.slow
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
