"""The n-gram memory of the GPT: product of experts, leave-one-out, caches, losses, the network without n-grams."""

import dataclasses

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from models.ngrams.witness import skewed

from bukva.models import ngram_memory
from bukva.models.gpt import GPT, GPTConfig
from bukva.models.ngram_gpt import NETWORK_LOSS, TEACHER_WEIGHT
from bukva.models.ngram_memory import NgramFeatures, ProductOfExperts
from bukva.models.ngrams.kneser_ney import KneserNey
from bukva.models.registry import build

V, T, B, C, ORDERS = 11, 7, 5, 6, (2, 3, 5)
TRAIN = skewed(503, V - 1)  # the last id is not in train
CONFIG = GPTConfig(
    V, n_layer=2, n_head=1, n_embd=C, block_size=T, dropout=0.0, ngrams="input", ngram_orders=ORDERS
)  # fmt: skip
NGRAMS = pytest.mark.parametrize("memory", ["logits", "input"])


def gpt(train=TRAIN, **options):
    """Return a GPT that has counted a text. Its weights are far from 0, so a fault changes the output."""
    model = build(dataclasses.replace(CONFIG, **options)).eval()
    generator = torch.Generator().manual_seed(5)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3, generator=generator)
    if model.ngrams:
        model.ngrams.count(train)
    return model


def windows(n=B, length=T, seed=3):
    starts = np.random.default_rng(seed).integers(len(TRAIN) - length, size=n)
    return torch.from_numpy(TRAIN[starts[:, None] + np.arange(length + 1)].astype(np.int64))


def counted(ids, *, leave_out=False, n_positions=T):
    """Return the n-gram predictions at the last positions, looked up in the counts directly."""
    result = KneserNey.count(TRAIN, V, max(ORDERS)).lookup(ids.numpy(), ORDERS, n_positions, leave_out=leave_out)
    return NgramFeatures(torch.from_numpy(result.probabilities), torch.from_numpy(result.seen).flatten(-2).log1p())


def close(a, b, atol=1e-5):
    torch.testing.assert_close(a, b, rtol=0, atol=atol)


@NGRAMS
def test_before_training_it_predicts_as_the_longest_order_does(memory):
    model, x = build(dataclasses.replace(CONFIG, ngrams=memory)), windows()[:, :-1]
    model.ngrams.count(TRAIN)
    torch.nn.init.zeros_(model.lm_head.weight)  # makes the network's prediction uniform; its initial weights are small
    close(model(x).softmax(-1), counted(x).probabilities[:, :, -1], atol=1e-6)


def mixed_by_loop(mixture, hidden, logits, recall):
    """Return the product of the distributions, each raised to its power, computed one position at a time."""
    product = torch.empty_like(logits)
    for b, t in np.ndindex(*logits.shape[:2]):
        inputs = torch.cat([hidden[b, t], recall.features[b, t]])
        exponents = mixture.weights.weight @ inputs + mixture.weights.bias
        product[b, t] = logits[b, t].softmax(-1) ** exponents[-1]
        for r in range(recall.probabilities.shape[2]):
            product[b, t] *= recall.probabilities[b, t, r] ** exponents[r]
    return product / product.sum(-1, keepdim=True)


def test_it_is_the_product_of_the_experts_each_to_its_power():
    torch.manual_seed(1)
    mixture, recall = ProductOfExperts(C, 4, 3), NgramFeatures(torch.rand(B, T, 3, V).softmax(-1), torch.rand(B, T, 4))
    torch.nn.init.normal_(mixture.weights.weight)
    hidden, logits = torch.randn(B, T, C), torch.randn(B, T, V)
    with torch.no_grad():
        exact = mixture(hidden, logits, recall)
        close(exact.softmax(-1), mixed_by_loop(mixture, hidden, logits, recall))
        with torch.autocast("cpu", torch.bfloat16):  # bf16 would round the exponents to two digits
            assert torch.equal(mixture(hidden, logits, recall), exact)
    nothing = NgramFeatures(torch.zeros(B, T, 3, V), torch.zeros(B, T, 4))
    assert mixture(hidden, logits, nothing).isfinite().all()


@pytest.mark.parametrize(
    ("memory", "orders"), [("logits", ORDERS), ("input", ORDERS), ("logits", (1,)), ("input", (12, 1))]
)
def test_a_text_in_pieces_has_the_same_logits(memory, orders):
    model, x = gpt(ngrams=memory, ngram_orders=orders), windows()[:, :-1]
    whole = model(x)
    for lengths in [[T], [1] * T, [3, 4], [5, 1, 1]]:
        caches, logits = model.new_cache(), []
        for piece in x.split(lengths, dim=1):
            logits.append(model(piece, caches, before=x[:, : caches.length]))
        close(torch.cat(logits, dim=1), whole)


@NGRAMS
@pytest.mark.parametrize("is_train", [False, True])
def test_counts_see_the_ids_before_a_window_and_leave_out_each_id_that_train_answers(memory, is_train):
    model, x, n = gpt(ngrams=memory), windows(length=T + 6), 7
    ids, before, following = x[:, n:-1], x[:, :n], x[:, -1] if is_train else None
    found = counted(x if is_train else x[:, :-1], leave_out=is_train, n_positions=ids.shape[1])
    hidden = model.encode(ids, model.ngram_embedding(found.probabilities[:, :, -1]) if memory == "input" else None)
    expected = model.experts(hidden, model.lm_head(hidden), found)
    close(model(ids, before=before, following=following), expected)
    close(model(ids, before=before[:, -model.n_before :], following=following), expected)
    assert (model(ids, before=before[:, -2:], following=following) - expected).abs().max() > 0.01
    if is_train:
        assert (model(ids, before=before) - expected).abs().max() > 0.1
    assert torch.equal(model.without_ngrams()(ids, before=before), model.without_ngrams()(ids))
    assert (model.n_before, model.without_ngrams().n_before) == (3, 0)


@pytest.mark.parametrize("memory", ["none", "logits", "input"])
@pytest.mark.parametrize("n", [0, 11])
def test_the_logits_of_wanted_positions_are_those_of_all_positions(memory, n):
    model, x = gpt(ngrams=memory), windows()
    wanted = (torch.randperm(B * T, generator=torch.Generator().manual_seed(3)) < n).view(B, T)
    for following in (None, x[:, -1]):
        whole, logits = model(x[:, :-1], following=following), model(x[:, :-1], following=following, wanted=wanted)
        assert logits.shape == (n, V)
        close(logits, whole[wanted])


def inputs(model, x):
    """Return the arguments of the loss for windows of train. The ids before them are not those of train."""
    ngrams = model.ngrams.inputs(torch.cat([windows(length=2, seed=7), x], dim=1), torch.arange(len(x)), len(x))
    return x[:, :-1], x[:, 1:], *ngrams


@NGRAMS
@pytest.mark.parametrize(("every", "alone"), [(6, []), (4, [3]), (2, [1, 3])])
def test_the_loss_is_that_of_the_whole_and_its_gradient_is_also_that_of_the_network(memory, every, alone, monkeypatch):
    monkeypatch.setattr(ngram_memory, "WITHOUT_EVERY", every)
    model, x = gpt(ngrams=memory), windows()
    before, others = windows(length=2, seed=7), [b for b in range(B) if b not in alone]
    ids, targets = x[:, :-1], x[:, 1:]
    whole = F.cross_entropy(model(ids, before=before, following=x[:, -1])[others].mT, targets[others])
    network = model.without_ngrams()(ids)
    if memory == "input":
        recall = counted(torch.cat([before, x], dim=1), leave_out=True).probabilities[:, :, -1]
        network[others] = model.lm_head(model.encode(ids, added=model.ngram_embedding(recall)))[others]
    loss = model.loss(*inputs(model, x))
    close(loss, whole)
    minimized = whole + NETWORK_LOSS * F.cross_entropy(network.mT, targets)
    parameters = list(model.parameters())
    close(torch.autograd.grad(loss, parameters), torch.autograd.grad(minimized, parameters))


def test_a_teacher_moves_the_targets_towards_the_predictions_of_the_longest_order_and_the_loss_stays():
    model, x = gpt(ngrams="targets"), windows()
    model.teacher.count(TRAIN)
    before, ids, targets = windows(length=2, seed=7), x[:, :-1], x[:, 1:]
    taught = counted(torch.cat([before, x], dim=1), leave_out=True).probabilities[:, :, -1]
    mixed = (1 - TEACHER_WEIGHT) * F.one_hot(targets, V) + TEACHER_WEIGHT * taught
    minimized = -(mixed * model(ids).log_softmax(dim=-1)).sum(dim=-1).mean()
    loss = model.loss(ids, targets, *model.teacher.inputs(torch.cat([before, x], dim=1), torch.arange(B), B))
    close(loss, F.cross_entropy(model(ids).mT, targets))
    parameters = list(model.parameters())
    close(torch.autograd.grad(loss, parameters), torch.autograd.grad(minimized, parameters))
    assert (model.ngrams, model.n_before) == (None, 0)
    assert torch.equal(model(ids), gpt(ngrams="none")(ids))  # it predicts without counts


@NGRAMS
def test_alone_the_network_is_a_plain_gpt_with_the_same_weights(memory):
    model, x = gpt(ngrams=memory), windows()[:, :-1]
    plain = GPT(dataclasses.replace(CONFIG, ngrams="none")).eval()
    plain.load_state_dict({name: model.state_dict()[name] for name in plain.state_dict()})
    before, alone = model(x), model.without_ngrams()
    assert torch.equal(alone(x), plain(x))
    assert alone.config == plain.config
    assert (alone.ngrams, list(alone.state_dict())) == (None, list(plain.state_dict()))
    assert alone.wte.weight is model.wte.weight
    assert torch.equal(model(x), before)  # the full model is unchanged
