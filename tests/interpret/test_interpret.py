"""What the attention report says, against loops and against models whose attention is known."""

import itertools
import json
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from lecture import average_by_loop
from torch import nn

from bukva.baselines.counts import count_pairs, exact_bigram
from bukva.config.schema import Evaluate
from bukva.interpret.forecast import TEMPERATURES, forecast
from bukva.interpret.heads import (
    BACK,
    DIFFUSE,
    Heads,
    breadth,
    describe_heads,
    mean_distance,
    relative_entropy,
    role_score,
    role_targets,
)
from bukva.interpret.leak import leak
from bukva.interpret.lens import averaging, exchanged, looks
from bukva.interpret.scale import scale_table
from bukva.interpret.study import Study, passage, study
from bukva.interpret.worth import worth_of_heads, worth_of_lengths
from bukva.models.attention import attend_explicit
from bukva.models.gpt import GPT, GPTConfig
from bukva.report.attention import attention_report
from bukva.scoring.window_rule import nats_of
from bukva.tokenizers.char import CharTokenizer
from bukva.training.device import Machine

CHARS = ["\n", " ", "!", "а", "б", "в", "г"]
V, T, B, nh = len(CHARS), 11, 3, 2
TOKENIZER = CharTokenizer(CHARS)
CPU = Machine(torch.device("cpu"), torch.float32)
NUMBERS = Evaluate(short_context=2, context_chars=50, attention_sentence="", attention_windows=5, leak_steps=3)


def gpt(n_layer=2, *, loud=True):
    torch.manual_seed(3)
    model = GPT(GPTConfig(V, n_layer, nh, 10, T, 0.0)).eval()
    if loud:  # weights as large as after training, so that attention is far from uniform
        for parameter in model.parameters():
            parameter.data.mul_(8)
    return model


def ids(*shape, seed=1):
    return torch.randint(V, shape, generator=torch.Generator().manual_seed(seed))


def text(n, seed=2):
    return np.random.default_rng(seed).integers(V, size=n).astype(np.uint8)


def uniform(n=B):
    return torch.ones(T, T).tril().div(torch.arange(1, T + 1)[:, None]).expand(n, nh, T, T)


# ---- the lens


@torch.inference_mode()
def test_looking_changes_nothing_and_sees_what_the_model_did():
    model, x = gpt(), ids(B, T)
    before = model(x)
    seen = looks(model, x)
    torch.testing.assert_close(model(x), before, rtol=0, atol=0)
    assert [look.weights.shape for look in seen] == [(B, nh, T, T)] * 2
    first = model.blocks[0]
    q, k, v = (
        first.attention.split_heads(part) for part in first.attention.project(first.ln_1(embedded(model, x)), None)
    )
    torch.testing.assert_close(seen[0].weights @ v, attend_explicit(q, k, v, causal=True))


def embedded(model, x):
    return model.wte(x) + model.wpe(torch.arange(x.shape[1]))


def test_the_kernels_are_put_back_also_after_an_error():
    model = gpt()
    before = [block.attention.attend for block in model.blocks]
    with pytest.raises(KeyError), exchanged(model, lambda _: attend_explicit):
        assert all(block.attention.attend is attend_explicit for block in model.blocks)
        raise KeyError
    assert [block.attention.attend for block in model.blocks] == before


def test_a_head_that_averages_takes_the_mean_of_the_past_and_the_others_attend():
    q, k, v = (torch.randn(B, nh, T, 5, generator=torch.Generator().manual_seed(seed)) for seed in (1, 2, 3))
    y = averaging(torch.tensor([False, True]))(q, k, v, causal=True, dropout=0.0)
    torch.testing.assert_close(y[:, 1], average_by_loop(v[:, 1]))
    torch.testing.assert_close(y[:, 0], attend_explicit(q, k, v, causal=True)[:, 0])


# ---- the heads


def test_breadth_is_the_share_of_characters_looked_at():
    last_two = (torch.ones(T, T).tril() - torch.ones(T, T).tril(-2)) / 2
    last_two[0, 0] = 1
    expected = np.mean([2 / (t + 1) for t in range(1, T)])
    torch.testing.assert_close(breadth(last_two.expand(B, nh, T, T)), torch.full((nh,), float(expected)))


def test_entropy_is_one_for_the_plain_average_and_zero_for_one_character():
    torch.testing.assert_close(relative_entropy(uniform()), torch.ones(nh))
    torch.testing.assert_close(breadth(uniform()), torch.ones(nh))
    torch.testing.assert_close(relative_entropy(torch.eye(T).expand(B, nh, T, T)), torch.zeros(nh))


def test_distance_counts_characters_back():
    three_back = torch.zeros(T, T)
    for t in range(T):
        three_back[t, max(0, t - 3)] = 1
    expected = np.mean([min(t, 3) for t in range(1, T)])
    torch.testing.assert_close(mean_distance(three_back.expand(B, nh, T, T)), torch.full((nh,), float(expected)))
    torch.testing.assert_close(
        mean_distance(uniform()), torch.full((nh,), np.mean([t / 2 for t in range(1, T)])).float()
    )


def role_by_loop(role, chars, t, s):
    """Whether character s plays a role for character t, told in words."""
    if s > t or t == 0:
        return False
    starts = [i for i in range(t + 1) if chars[i].isalpha() and (i == 0 or not chars[i - 1].isalpha())]
    return {
        "itself": s == t,
        "first position": s == 0 and t > 0,
        "same character": chars[s] == chars[t] and s < t,
        "word start": bool(starts) and s == starts[-1] and s < t,
        "newline": chars[s] == "\n" and s < t,
        **{name: s == t - n for name, n in BACK.items()},
    }[role]


@pytest.mark.parametrize("words", ["аб ваг\nб!аа", "а\n\n ббббб в", "!!! а аб аб"])
def test_roles_are_what_their_names_say(words):
    targets = role_targets(torch.from_numpy(TOKENIZER.encode(words).astype(np.int64))[None], CHARS)
    for role, target in targets.items():
        expected = [[role_by_loop(role, words, t, s) for s in range(T)] for t in range(T)]
        assert target[0].tolist() == expected, role


def test_a_head_that_plays_a_role_scores_one_and_the_plain_average_zero():
    x = torch.from_numpy(TOKENIZER.encode("аб ваг\nб!аа").astype(np.int64))[None]
    for role, target in role_targets(x, CHARS).items():
        played = target.float() / target.float().sum(-1, keepdim=True).clamp(min=1)
        torch.testing.assert_close(role_score(played[:, None].expand(1, nh, T, T), target), torch.ones(nh), msg=role)
        torch.testing.assert_close(role_score(uniform(1), target), torch.zeros(nh), msg=role)


def test_a_role_that_nothing_in_the_text_can_play_scores_nothing():
    no_newline = role_targets(torch.full((B, T), 3), CHARS)["newline"]
    assert role_score(uniform(), no_newline).tolist() == [0, 0]


def test_the_best_fit_is_the_role_and_diffuse_counts_by_its_breadth():
    grid = {"word start": np.array([[0.1, 0.6]]), "itself": np.array([[0.2, 0.3]])}
    nothing = np.zeros((1, 2))
    heads = Heads(nothing, np.array([[0.4, 0.5]]), nothing, nothing, nothing, roles=grid)
    assert (heads.role(0, 0), heads.role(0, 1)) == ((DIFFUSE, 0.4), ("word start", 0.6))


def test_heads_are_described_over_all_windows_whatever_the_batches(monkeypatch):
    model, x = gpt(), ids(7, T)
    whole = describe_heads(model, x, CHARS)
    assert whole.entropy.shape == (2, nh)
    q_k = torch.stack([look.q @ look.k.mT for look in looks(model, x)])  # (n_layer, B, nh, T, T)
    pairs = [q_k[1, b, 0, t, s].item() for b in range(7) for t in range(T) for s in range(t + 1)]
    assert whole.raw_variance[1, 0] == pytest.approx(np.var(pairs, ddof=1), rel=1e-5)
    assert whole.variance[1, 0] == pytest.approx(np.var(pairs, ddof=1) / 5, rel=1e-5)
    monkeypatch.setattr("bukva.interpret.heads.BATCH_WEIGHTS", 3 * nh * T * T)
    parts = describe_heads(model, x, CHARS)
    np.testing.assert_allclose(parts.entropy, whole.entropy, rtol=1e-6)
    np.testing.assert_allclose(parts.distance, whole.distance, rtol=1e-6)


# ---- the scale


def test_random_scores_have_the_variance_of_the_head_size_without_the_scale_and_one_with_it():
    # reference values: 64 random keys, published for the same head sizes
    reference = {4: (0.283, 2.77), 16: (0.587, 1.36), 64: (0.794, 0.58), 256: (0.896, 0.27)}
    for row in scale_table():
        hs = row["head_size"]
        assert row["raw"]["variance"] == pytest.approx(hs, rel=0.05)
        assert row["scaled"]["variance"] == pytest.approx(1, rel=0.05)
        assert row["scaled"]["entropy"] == pytest.approx(3.69, abs=0.03)
        if hs in reference:
            assert (row["raw"]["peak"], row["raw"]["entropy"]) == pytest.approx(reference[hs], abs=0.05)


# ---- what it is worth


def test_a_head_is_worth_what_the_score_loses_without_it():
    model, runs = gpt(), [text(200), text(90, seed=5)]
    worth = worth_of_heads(model, runs)

    def bits_with(kernel_of):
        with exchanged(model, kernel_of):
            nats = np.concatenate([nats_of(model, run, T, T // 2) for run in runs])
        return nats.mean(dtype=np.float64) / math.log(2)

    learned = bits_with(lambda _: attend_explicit)
    one = bits_with(lambda layer: averaging(torch.tensor([False, layer == 1])))
    every = bits_with(lambda _: averaging(torch.tensor([True, True])))
    assert worth["bits_per_char"] == pytest.approx(learned, abs=1e-5)
    assert worth["heads_uniform"][1][1] == pytest.approx(one - learned, abs=1e-5)
    assert worth["all_uniform"] == pytest.approx(every - learned, abs=1e-5)
    assert abs(one - learned) > 1e-4
    assert np.shape(worth["heads_uniform"]) == (2, nh)


def test_attention_that_reaches_nothing_is_worth_nothing():
    model = gpt()
    for block in model.blocks:
        nn.init.zeros_(block.attention.proj.weight)
    worth = worth_of_heads(model, [text(200)])
    assert [worth["all_uniform"], *np.ravel(worth["heads_uniform"])] == [0] * 5


def test_a_length_of_context_means_exactly_so_many_characters():
    model, run = gpt(), text(60)
    nn.init.normal_(model.wpe.weight)  # so that every position tells
    found = {row["chars"]: row for row in worth_of_lengths(model, run, 1000)}
    assert list(found) == [1, 2, 4, 8, 11]
    for n, row in found.items():
        nats = []
        for i in range(T, len(run)):
            logits = model(torch.from_numpy(run[i - n : i].astype(np.int64))[None])[0, -1]
            nats.append(F.cross_entropy(logits, torch.tensor(int(run[i]))).item())
        assert row["bits_per_char"] == pytest.approx(np.mean(nats) / math.log(2), abs=1e-4)
    assert found[T]["standard_error"] == 0 < found[1]["standard_error"]


def test_the_exact_bigram_is_counted_on_train_and_smoothed():
    train, run = text(500), text(70, seed=5)
    counts = count_pairs(train, V) + 1
    nats = [-math.log(counts[a, b] / counts[a].sum()) for a, b in itertools.pairwise(run)]
    assert exact_bigram(train, [run], V) == pytest.approx(np.mean(nats) / math.log(2))


# ---- the mask


@pytest.mark.slow
def test_without_the_mask_a_model_reads_its_answers_and_knows_nothing_else():
    torch.manual_seed(1)
    config = GPTConfig(V, 3, nh, 32, 64, 0.0)
    found = leak(config, {"train": text(20_000), "val": text(3000, seed=4)}, 150, CPU)
    assert (found["n_layer"], found["block_size"], found["steps"][-1]) == (2, 32, 150)
    uniform_bits = math.log2(V)  # the text is noise: nobody can do better without looking ahead
    assert found["unmasked"]["in_sight"][-1] < 0.3
    assert found["masked"]["in_sight"][-1] == pytest.approx(uniform_bits, abs=0.1)
    assert found["unmasked"]["out_of_sight"] > uniform_bits - 0.1


# ---- from logits to text


@torch.inference_mode()
def test_the_forecast_tells_what_was_held_possible_before_each_character():
    model = gpt()
    found = forecast(model, TOKENIZER, "аб в")
    assert found["prompt"] == "а"  # a block of 11 leaves room for one character and ten to be written
    written = "".join(char["char"] for char in found["chars"])
    assert len(written) == 10
    for i, char in enumerate(found["chars"]):
        logits = model(torch.from_numpy(TOKENIZER.encode(found["prompt"] + written[:i]).astype(np.int64))[None])[0, -1]
        chances = logits.softmax(-1)
        order = chances.argsort(descending=True)[:5]
        assert [name for name, _ in char["top"]] == [CHARS[int(j)] for j in order]
        assert [share for _, share in char["top"]] == pytest.approx(chances[order].tolist(), abs=1e-5)
        at_one = char["entropy"][TEMPERATURES.index(1.0)]
        assert at_one == pytest.approx(float(-(chances * chances.log2()).sum()), abs=1e-4)
        assert char["entropy"] == sorted(char["entropy"])  # the hotter, the less sure


# ---- all of it


def test_a_passage_is_a_line_or_the_beginning():
    assert passage(TOKENIZER, TOKENIZER.encode("аббб\nа\nвва аб\nб"), 5) == "вва а"
    assert passage(TOKENIZER, TOKENIZER.encode("аб\nв\nг"), 5) == "аб\nв\n"


@pytest.fixture(scope="module")
def found() -> Study:
    parts = {"train": text(3000), "val": text(400, seed=5)}
    return study({"untrained": gpt(loud=False), "trained": gpt()}, TOKENIZER, parts, NUMBERS, CPU)


def test_a_study_can_be_written_as_json_and_covers_everything(found):
    assert json.loads(json.dumps(found.numbers)) == found.numbers
    assert list(found.numbers) == [
        "sentence", "windows", "heads", "scale", "worth", "context", "leak", "forecast",
    ]  # fmt: skip
    assert found.numbers["windows"] == {"n": 5, "length": T}
    assert found.weights["trained"].shape == (2, nh, T, T)
    np.testing.assert_allclose(found.weights["trained"].sum(-1), 1, rtol=1e-6)


def test_an_untrained_model_looks_everywhere_alike(found):
    heads = found.numbers["heads"]
    assert np.min(heads["untrained"]["entropy"]) > 0.99 > np.min(heads["trained"]["entropy"])
    assert {role["name"] for row in heads["untrained"]["role"] for role in row} == {DIFFUSE}


def test_a_sentence_that_was_asked_for_is_the_one_that_is_drawn():
    asked = NUMBERS.model_copy(update={"attention_sentence": "ба!"})
    parts = {"train": text(500), "val": text(100, seed=5)}
    assert study({"trained": gpt()}, TOKENIZER, parts, asked, CPU).numbers["sentence"] == "ба!"


@pytest.mark.slow
def test_the_report_is_written_whole_and_to_the_same_bytes(found, tmp_path):
    for name in ("a", "b"):
        attention_report(found, tmp_path / name)
    contents = [{file.name: file.read_bytes() for file in (tmp_path / name).iterdir()} for name in ("a", "b")]
    assert contents[0] == contents[1]
    figures = {"weights_untrained", "weights_trained", "heads", "scale", "worth", "context", "leak", "forecast"}
    assert set(contents[0]) == {"attention.json", *(f"{figure}.png" for figure in figures)}
    assert all(data.startswith(b"\x89PNG") for name, data in contents[0].items() if name.endswith(".png"))


def test_one_layer_with_one_head_is_drawn_too(tmp_path):
    torch.manual_seed(1)
    states = {state: GPT(GPTConfig(V, 1, 1, 6, 2, 0.0)).eval() for state in ("untrained", "trained")}
    parts = {"train": text(300), "val": text(60, seed=5)}
    attention_report(study(states, TOKENIZER, parts, NUMBERS, CPU), tmp_path / "report")
    assert len(list((tmp_path / "report").iterdir())) == 9
