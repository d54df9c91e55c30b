"""The study of attention, against loops, against weights whose role is known, and against the model; and its charts."""

import json
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from lecture import average_by_loop
from torch import nn

from bukva.backends.device import Machine
from bukva.models.attention import attend_explicit
from bukva.models.gpt import GPT, GPTConfig
from bukva.report import page as pages
from bukva.scoring.window_rule import nats_of
from bukva.studies import attention_study
from bukva.studies.attention_charts import attention_report
from bukva.studies.attention_study import (
    DIFFUSE,
    LayerAttention,
    ablate_heads,
    averaging_kernel,
    default_sentence,
    describe_heads,
    head_statistics,
    leak,
    record_attention,
    replaced_kernels,
    role_score,
    role_targets,
    score_by_context,
    study,
    word_starts,
)
from bukva.text.held_out import Passage
from bukva.text.tokenizers import ByteTokenizer, CharTokenizer

TOKENIZER = CharTokenizer(["\n", " ", "!", "а", "б", "в", "г"])
V, T, B, nh = len(TOKENIZER), 11, 3, 2
CPU = Machine(torch.device("cpu"), torch.float32)
AVERAGE = torch.ones(T, T).tril().div(torch.arange(1, T + 1)[:, None]).expand(B, nh, T, T)  # the plain average


def gpt(*, sharp=True):
    """A GPT; sharp: its weights are as large as after training, its attention far from uniform."""
    torch.manual_seed(3)
    model = GPT(GPTConfig(V, 2, nh, 10, T, 0.0)).eval()
    for parameter in model.parameters():
        parameter.data.mul_(8 if sharp else 1)
    return model


def random_ids(*shape, seed=2):
    return np.random.default_rng(seed).integers(V, size=shape).astype(np.uint8)


def encoded(text):
    return torch.from_numpy(TOKENIZER.encode(text).astype(np.int64))[None]


# ---- recording and replacing


@torch.inference_mode()
def test_recording_changes_nothing_and_gives_the_weights_of_the_model():
    model, x = gpt(), torch.from_numpy(random_ids(B, T).astype(np.int64))
    before = model(x)
    recorded = record_attention(model, x)
    torch.testing.assert_close(model(x), before, rtol=0, atol=0)
    assert [layer.weights.shape for layer in recorded] == [(B, nh, T, T)] * 2
    first, embedded = model.blocks[0], model.wte(x) + model.wpe(torch.arange(T))
    q, k, v = first.attention.split_heads(first.attention.qkv(first.ln_1(embedded))).chunk(3, dim=1)
    torch.testing.assert_close(recorded[0].weights @ v, attend_explicit(q, k, v, causal=True))


def test_a_replaced_head_takes_the_mean_of_the_past_and_the_others_attend():
    q, k, v = torch.randn(3, B, nh, T, 5, generator=torch.Generator().manual_seed(1))
    y = averaging_kernel(torch.tensor([False, True]))(q, k, v, causal=True, dropout=0.0)
    torch.testing.assert_close(y[:, 1], average_by_loop(v[:, 1]))
    torch.testing.assert_close(y[:, 0], attend_explicit(q, k, v, causal=True)[:, 0])


def test_a_head_contributes_what_the_score_loses_without_it():
    model, runs = gpt(), [random_ids(200), random_ids(90, seed=5)]
    found = ablate_heads(model, [Passage(0, run, 1) for run in runs], TOKENIZER)

    def bits_with(kernel_of):
        with replaced_kernels(model, kernel_of):
            nats = np.concatenate([nats_of(model, run, T, T // 2) for run in runs])
        return nats.mean(dtype=np.float64) / math.log(2)

    learned = bits_with(lambda _: attend_explicit)
    every = bits_with(lambda _: averaging_kernel(torch.tensor([True, True])))
    each = [
        [bits_with(lambda i, of=(layer, head): averaging_kernel((torch.arange(nh) == of[1]) & (i == of[0])))
         for head in range(nh)]
        for layer in range(2)
    ]  # fmt: skip
    assert (found["bits_per_char"], found["all_uniform"]) == pytest.approx((learned, every - learned), abs=1e-5)
    np.testing.assert_allclose(found["heads_uniform"], np.array(each) - learned, atol=1e-5)
    assert np.abs(found["heads_uniform"]).min() > 1e-4


# ---- statistics and roles


def test_breadth_entropy_and_distance_of_weights_that_are_known():
    def statistics(weights):
        found = head_statistics(LayerAttention(torch.ones(B, nh, T, 5), torch.ones(B, nh, T, 5), weights))
        return pytest.approx([found[name][0].item() for name in (DIFFUSE, "entropy", "distance")], abs=1e-6)

    t = np.arange(1, T)
    assert statistics(AVERAGE) == [1, 1, np.mean(t / 2)]
    last_two = (torch.ones(T, T).tril() - torch.ones(T, T).tril(-2)) / 2
    last_two[0, 0] = 1
    expected = [np.mean(2 / (t + 1)), np.mean(np.log(2) / np.log(t + 1)), 0.5]
    assert statistics(last_two.expand(B, nh, T, T)) == expected
    three_back = torch.eye(T)[[max(0, t - 3) for t in range(T)]]
    expected = [np.mean(1 / (t + 1)), 0, np.mean(np.minimum(t, 3))]
    assert statistics(three_back.expand(B, nh, T, T)) == expected


def role_by_loop(role, chars, t, s):
    """Whether character s plays a role for character t, by the definition of the role."""
    if s > t or t == 0:
        return False
    starts = [i for i in range(t + 1) if chars[i].isalpha() and (i == 0 or not chars[i - 1].isalpha())]
    return {
        "itself": s == t,
        "first position": s == 0,
        "same character": chars[s] == chars[t] and s < t,
        "word start": bool(starts) and s == starts[-1] and s < t,
        "newline": chars[s] == "\n" and s < t,
        "previous character": s == t - 1,
        **{f"{n} back": s == t - n for n in (2, 3, 4)},
    }[role]


@pytest.mark.parametrize("words", ["аб ваг\nб!аа", "а\n\n ббббб в", "!!! а аб аб"])
def test_roles_are_what_their_names_say(words):
    for role, target in role_targets(encoded(words), TOKENIZER).items():
        expected = [[role_by_loop(role, words, t, s) for s in range(T)] for t in range(T)]
        assert target[0].tolist() == expected, role


@pytest.mark.parametrize(
    ("parts", "first"),
    [
        ("аб, в\nга!", ["а", "в", "г"]),
        (["а", "", "б", "", ",", " ", "", "в"], ["а", "в"]),  # bytes: an empty part continues a character
        (["Ми", "р", " и", " во", "йна", "."], ["Ми", " и", " во"]),
    ],
)
def test_a_word_starts_where_letters_follow_none_in_what_a_tokenizer_makes_of_it(parts, first):
    assert [part for part, starts in zip(parts, word_starts(parts), strict=True) if starts] == first


def test_a_head_that_plays_a_role_scores_one_and_the_plain_average_zero():
    for role, target in role_targets(encoded("аб ваг\nб!аа"), TOKENIZER).items():
        played = target.float() / target.float().sum(-1, keepdim=True).clamp(min=1)
        torch.testing.assert_close(role_score(played[:, None].expand(1, nh, T, T), target), torch.ones(nh), msg=role)
        torch.testing.assert_close(role_score(AVERAGE[:1], target), torch.zeros(nh), msg=role)


def test_statistics_cover_all_windows_and_do_not_depend_on_the_batches(monkeypatch):
    model, x = gpt(), torch.from_numpy(random_ids(7, T).astype(np.int64))
    whole = describe_heads(model, x, TOKENIZER)
    assert [(head["layer"], head["head"]) for head in whole] == [(1, 1), (1, 2), (2, 1), (2, 2)]
    third = head_statistics(record_attention(model, x)[1])
    assert whole[2]["roles"][DIFFUSE] == pytest.approx(third[DIFFUSE][0].item())
    monkeypatch.setattr(attention_study, "BATCH_WEIGHTS", 3 * nh * T * T)
    for head, in_batches in zip(whole, describe_heads(model, x, TOKENIZER), strict=True):
        names = ("entropy", "distance")
        assert [in_batches[name] for name in names] == pytest.approx([head[name] for name in names], rel=1e-5)


# ---- context and the mask


def test_a_length_of_context_means_exactly_that_many_characters():
    model, run = gpt(), random_ids(60)
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
    splits = {"train": random_ids(20_000), "val": random_ids(3000, seed=4)}
    found = leak(GPTConfig(V, 3, nh, 32, 64, 0.0), splits, TOKENIZER, 150, CPU)
    assert (found["n_layer"], found["block_size"], found["steps"][-1]) == (2, 32, 150)
    uniform_bits = math.log2(V)  # the text is noise: this is the best score without looking ahead
    assert found["unmasked"]["in_sight"][-1] < 0.3
    assert found["masked"]["in_sight"][-1] == pytest.approx(uniform_bits, abs=0.1)
    assert found["unmasked"]["out_of_sight"] > uniform_bits - 0.1


# ---- the study and its charts


@pytest.fixture(autouse=True, scope="module")
def _short():
    """A study of few windows and updates."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(attention_study, "WINDOWS", 5)
        patch.setattr(attention_study, "LEAK_STEPS", 3)
        yield


@pytest.fixture(scope="module")
def found():
    splits = {"train": random_ids(3000), "val": random_ids(400, seed=5)}
    return study({"untrained": gpt(sharp=False), "trained": gpt()}, TOKENIZER, splits, "ба!", CPU)


def test_the_default_sentence_is_a_long_enough_line_or_the_beginning():
    assert default_sentence(TOKENIZER, TOKENIZER.encode("аббб\nа\nвва аб\nб"), 5) == "вва а"
    assert default_sentence(TOKENIZER, TOKENIZER.encode("аб\nв\nг"), 5) == "аб\nв\n"


def test_a_study_has_its_numbers_and_can_be_written_as_json(found):
    assert json.loads(json.dumps(found)) == found
    assert (found["windows"], found["sentence"]) == ({"n": 5, "length": T}, "ба!")
    np.testing.assert_allclose(np.sum(found["weights"]["trained"], axis=-1), np.ones((2, nh, 3)), rtol=1e-6)
    untrained, trained = ([head for head in found["heads"] if head["state"] == state] for state in found["weights"])
    assert min(head["entropy"] for head in untrained) > 0.99 > min(head["entropy"] for head in trained)
    assert {head["role"] for head in untrained} == {DIFFUSE}  # the attention of an untrained model is nearly uniform


@pytest.mark.slow
def test_the_page_of_a_gpt_shows_the_study_of_its_own_weights(found, tmp_path, monkeypatch):
    attention_report(found, tmp_path / "reports/attention", "digest")
    monkeypatch.setattr(pages, "project_root", lambda: tmp_path)
    assert pages.attention("of another") == {}
    page = pages.attention("digest")
    names = [f"layer {layer}, head {head}: {page['rows'][layer - 1][head]}" for layer in (1, 2) for head in (1, 2)]
    assert list(page["weights"]) == names
    for spec, expected in zip(page["weights"].values(), np.concatenate(found["weights"]["trained"]), strict=True):
        [rows], drawn = spec["datasets"].values(), np.zeros((3, 3))
        for row in rows:
            drawn[int(row["query"][:3]), int(row["key"][:3])] = row["weight"]
        np.testing.assert_allclose(drawn, expected, atol=0.006)
    # heads are in the order of what they are worth
    [(whole, *rows)] = page["worth"]["datasets"].values()
    assert (whole["label"], whole["value"]) == ("all heads", round(found["worth"]["all_uniform"], 3))
    lost = dict(zip(names, np.ravel(found["worth"]["heads_uniform"]), strict=True))
    in_order = sorted(lost, key=lost.__getitem__, reverse=True)
    assert [(row["label"], row["value"]) for row in rows] == [(name, round(lost[name], 3)) for name in in_order]


@pytest.mark.slow
def test_models_whose_ids_are_not_characters_are_shown_with_the_characters_of_their_ids():
    text = {"train": "мир и война, war и мир\n“ — да!\n" * 31, "val": "война и мир —\nмир да “ war!\n" * 5}
    tokenizer = ByteTokenizer()
    torch.manual_seed(1)
    plain = GPT(GPTConfig(len(tokenizer), 1, 1, 8, 13, 0.0)).eval()
    splits = {split: tokenizer.encode(text[split]) for split in text}
    found = study({"untrained": plain, "trained": plain}, tokenizer, splits, "", CPU)
    assert len(found["parts"]) == len(found["weights"]["trained"][0][0]) <= 13
    assert found["sentence"].startswith("".join(found["parts"][:-1]))  # the last byte may be a part of a letter
    assert {"previous byte", "same byte"} < set(found["heads"][0]["roles"])
