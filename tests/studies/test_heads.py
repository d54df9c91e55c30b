"""What heads attend to, against loops, against weights whose role is known, and against the model itself."""

import numpy as np
import pytest
import torch
from lecture import average_by_loop
from studies.small import TOKENIZER, B, T, gpt, nh, random_ids, uniform_weights

from bukva.models.attention import attend_explicit
from bukva.studies.heads import (
    DIFFUSE,
    averaging_kernel,
    breadth,
    describe_heads,
    mean_distance,
    record_attention,
    relative_entropy,
    replaced_kernels,
    role_score,
    role_targets,
    word_starts,
)


def test_breadth_entropy_and_distance_of_weights_that_are_known():
    last_two = (torch.ones(T, T).tril() - torch.ones(T, T).tril(-2)) / 2
    last_two[0, 0] = 1
    expected = np.mean([2 / (t + 1) for t in range(1, T)])
    torch.testing.assert_close(breadth(last_two.expand(B, nh, T, T)), torch.full((nh,), float(expected)))
    torch.testing.assert_close(breadth(uniform_weights()), torch.ones(nh))
    torch.testing.assert_close(relative_entropy(uniform_weights()), torch.ones(nh))
    torch.testing.assert_close(relative_entropy(torch.eye(T).expand(B, nh, T, T)), torch.zeros(nh))
    three_back = torch.eye(T)[[max(0, t - 3) for t in range(T)]]
    expected = np.mean([min(t, 3) for t in range(1, T)])
    torch.testing.assert_close(mean_distance(three_back.expand(B, nh, T, T)), torch.full((nh,), float(expected)))


def role_by_loop(role, chars, t, s):
    """Whether character s plays a role for character t, by the definition of the role."""
    if s > t or t == 0:
        return False
    starts = [i for i in range(t + 1) if chars[i].isalpha() and (i == 0 or not chars[i - 1].isalpha())]
    return {
        "itself": s == t,
        "first position": s == 0 and t > 0,
        "same character": chars[s] == chars[t] and s < t,
        "word start": bool(starts) and s == starts[-1] and s < t,
        "newline": chars[s] == "\n" and s < t,
        "previous character": s == t - 1,
        "2 back": s == t - 2,
        "3 back": s == t - 3,
        "4 back": s == t - 4,
    }[role]


@pytest.mark.parametrize("words", ["аб ваг\nб!аа", "а\n\n ббббб в", "!!! а аб аб"])
def test_roles_are_what_their_names_say(words):
    targets = role_targets(torch.from_numpy(TOKENIZER.encode(words).astype(np.int64))[None], TOKENIZER)
    for role, target in targets.items():
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
    x = torch.from_numpy(TOKENIZER.encode("аб ваг\nб!аа").astype(np.int64))[None]
    for role, target in role_targets(x, TOKENIZER).items():
        played = target.float() / target.float().sum(-1, keepdim=True).clamp(min=1)
        torch.testing.assert_close(role_score(played[:, None].expand(1, nh, T, T), target), torch.ones(nh), msg=role)
        torch.testing.assert_close(role_score(uniform_weights(1), target), torch.zeros(nh), msg=role)


def test_statistics_cover_all_windows_and_do_not_depend_on_the_batches(monkeypatch):
    model, x = gpt(), random_ids(7, T)
    whole = describe_heads(model, x, TOKENIZER)
    assert [(head["layer"], head["head"]) for head in whole] == [(1, 1), (1, 2), (2, 1), (2, 2)]
    recorded = record_attention(model, x)
    diffuse = torch.cat([breadth(layer.weights) for layer in recorded]).tolist()
    assert [head["roles"][DIFFUSE] for head in whole] == pytest.approx(diffuse)
    assert all((head["score"], head["role"]) == max((n, name) for name, n in head["roles"].items()) for head in whole)
    q_k = torch.stack([layer.q @ layer.k.mT for layer in recorded])  # (n_layer, B, nh, T, T)
    pairs = [q_k[1, b, 0, t, s].item() for b in range(7) for t in range(T) for s in range(t + 1)]
    assert whole[2]["raw_variance"] == pytest.approx(np.var(pairs, ddof=1), rel=1e-5)
    assert whole[2]["variance"] == pytest.approx(np.var(pairs, ddof=1) / 5, rel=1e-5)
    monkeypatch.setattr("bukva.studies.heads.BATCH_WEIGHTS", 3 * nh * T * T)
    in_batches = describe_heads(model, x, TOKENIZER)
    for name in ("entropy", "distance"):
        assert [head[name] for head in in_batches] == pytest.approx([head[name] for head in whole], rel=1e-6)


# ---- recording and replacing


@torch.inference_mode()
def test_recording_changes_nothing_and_gives_the_weights_of_the_model():
    model, x = gpt(), random_ids(B, T)
    before = model(x)
    recorded = record_attention(model, x)
    torch.testing.assert_close(model(x), before, rtol=0, atol=0)
    assert [layer.weights.shape for layer in recorded] == [(B, nh, T, T)] * 2
    first = model.blocks[0]
    q, k, v = first.attention.split_heads(first.attention.qkv(first.ln_1(embedded(model, x)))).chunk(3, dim=1)
    torch.testing.assert_close(recorded[0].weights @ v, attend_explicit(q, k, v, causal=True))


def embedded(model, x):
    return model.wte(x) + model.wpe(torch.arange(x.shape[1]))


def test_the_kernels_are_put_back_also_after_an_error():
    model = gpt()
    before = [block.attention.attend for block in model.blocks]
    with pytest.raises(KeyError), replaced_kernels(model, lambda _: attend_explicit):
        assert all(block.attention.attend is attend_explicit for block in model.blocks)
        raise KeyError
    assert [block.attention.attend for block in model.blocks] == before


def test_a_replaced_head_takes_the_mean_of_the_past_and_the_others_attend():
    q, k, v = (torch.randn(B, nh, T, 5, generator=torch.Generator().manual_seed(seed)) for seed in (1, 2, 3))
    y = averaging_kernel(torch.tensor([False, True]))(q, k, v, causal=True, dropout=0.0)
    torch.testing.assert_close(y[:, 1], average_by_loop(v[:, 1]))
    torch.testing.assert_close(y[:, 0], attend_explicit(q, k, v, causal=True)[:, 0])
