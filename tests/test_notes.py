"""The lecture notes, replayed: our functions give what their cells print, with their seeds, to the last printed digit.

Two results cannot be replayed without the corpus of the lecture notes: the loss of update 1 (its batch is unknown; its
expectation is tested instead), and those after the training (loss 2.5729 and the trained sample).
"""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from lecture import average_by_loop, average_by_product, average_by_softmax
from torch import nn

from bukva.evaluation.sampling import generate
from bukva.models.attention import Attention, attention_scores, attention_weights, causal_mask
from bukva.models.bigram import Bigram, BigramConfig
from bukva.text.tokenizers import CharTokenizer
from bukva.training.windows import Windows

HALF_A_DIGIT = 5e-5


def prints(tensor, numbers):
    """Assert that torch prints these numbers, with four digits after the point."""
    torch.testing.assert_close(tensor.detach(), torch.tensor(numbers), rtol=0, atol=HALF_A_DIGIT)


# ---- the alphabet of 87 characters, and encoded text

ALPHABET = "\n !&,-.:;?i\u00a0\u0300\u0301ЁІЉАБВГДЕЖЗИЙКЛМНОПРСТУФХЦЧШЩЪЫЬЭЮЯабвгдежзийклмнопрстуфхцчшщъыьэюяёєі–—’"
V = 87
TOKENIZER = CharTokenizer(ALPHABET)

TEXT = "Михаил Лермонтов\n  \n\nВыхожу один я на дорогу;\nСквозь туман кремнистый путь блестит;\n"


def test_text_is_encoded_as_the_printed_ids_of_87_characters_and_decoded():
    assert len(TOKENIZER) == V
    line = "Мой дядя самых честных правил"
    ids = "29 63 58 1 53 80 53 80 1 66 49 61 76 70 1 72 54 66 67 62 76 70 1 64 65 49 51 57 60"
    assert TOKENIZER.encode(line).tolist() == [int(number) for number in ids.split()]
    assert TOKENIZER.decode(TOKENIZER.encode(TEXT)) == TEXT


# ---- blocks and batches


BATCH = [70, 6, 1, 31, 67, 65, 80, 53, 1, 49, 1, 72, 54, 60, 63, 51, 54, 59,
         66, 54, 50, 54, 1, 57, 61, 57, 1, 65, 62, 63, 54, 4, 1, 55, 53, 54]  # fmt: skip
X, Y = (torch.tensor(BATCH).view(4, 9)[:, start : start + 8] for start in (0, 1))


def test_our_windows_are_such_batches():
    assert TOKENIZER.decode(BATCH) == "х. Отряд а человексебе ими рное, жде"
    [(x, y)] = Windows(TOKENIZER.encode(TEXT), block_size=8, batch_size=4, order="random", seed=3).batch(1)
    assert (x.shape, x.dtype, y.shape, y.dtype) == (X.shape, X.dtype, Y.shape, Y.dtype)
    for inputs, targets in zip(x.tolist(), y.tolist(), strict=True):
        assert TOKENIZER.decode([*inputs, targets[-1]]) in TEXT
        assert inputs[1:] == targets[:-1]


# ---- the bigram


@pytest.fixture(scope="module")
def bigram():
    """The untrained bigram of the lecture notes: seed 3, then the four offsets of the batch, then the table."""
    torch.manual_seed(3)
    torch.randint(int(0.8 * 34_824_628) - 8, (4,))
    return Bigram(BigramConfig(V, block_size=8))


def cross_entropy(model, x, y):
    return F.cross_entropy(model(x).flatten(0, 1), y.flatten())


SAMPLE = (
    "\nПхчМнЭХ–г!,цЙщЫ,рАНвщiсЛжрЭтЗБИзняН—\u0301’зЩЯщБги;ыРуШжмгЕЙСыТПУг–"
    "ПФЦырщп\u0301ФЕпЫЧпо\u00a0т!Их-фУЬюш–лрёФъЛшШi:пМш’\u0300Гб—мСЁМвєГчВ\nХ\u0300Ю&ТЁбє"
    "Йлкiыубц\nЛИЭЫтущп\u0301оНд:р:мвущфНдеєоЪЬЁІЙёЯэбИ?кІЙнЉк’є\u00a0РЙ!Ип’м-о"
    "ф&ЙЦкЭ’,Хп\u0301каыцУуйНБ\nН’лЯШшРОящ\nСБШОЮЁфу;—––тЯэ?ЁеЛзІыцфшАзП;є"
)


def test_the_untrained_bigram_has_the_printed_loss_and_generates_the_printed_250_characters(bigram):
    prints(cross_entropy(bigram, X, Y), 4.8334)
    context = torch.tensor([TOKENIZER.encode("\n").tolist()])
    written = generate(bigram, context, 250, temperature=1, top_k=0, top_p=1, rng=torch.Generator().manual_seed(3))
    assert "\n" + TOKENIZER.decode(written[0]) == SAMPLE


def test_a_table_of_unit_normals_scores_half_a_nat_above_the_uniform_distribution():
    """E[logsumexp of V unit normals] = ln V + 1/2, less half the relative variance of the sum, (e - 1) / V."""
    torch.manual_seed(3)
    pairs = torch.cartesian_prod(torch.arange(V), torch.arange(V))
    losses = [cross_entropy(Bigram(BigramConfig(V, 8)), *pairs.T[:, None]).item() for _ in range(30)]
    expected = math.log(V) + 1 / 2 - (math.e - 1) / (2 * V)
    assert np.mean(losses) == pytest.approx(expected, abs=0.01)
    assert np.abs(np.subtract([4.8334, 4.9720], expected)).max() < 0.15  # before training, and of update 1


# ---- averaging the past


AVERAGES = [
    [-0.0766, -0.4293, -0.0646, 0.3567, 0.2750, 0.2706, 0.3624, 0.3888],
    [0.3599, 0.2157, 0.0482, -0.3630, -0.3516, -0.3301, -0.2538, -0.1700],
]


def test_four_sequences_of_eight_pairs_and_their_averages():
    torch.manual_seed(3)
    x = torch.randn(4, 8, 2)
    weights = attention_weights(torch.zeros(8, 8), causal_mask(8, 8))
    shares = [1.0, 0.5, 0.3333, 0.25, 0.2, 0.1667, 0.1429, 0.125]
    prints(weights, [[share] * (t + 1) + [0.0] * (7 - t) for t, share in enumerate(shares)])
    averages = [average_by_loop(x), average_by_product(x), average_by_softmax(x), weights @ x]
    for average in averages:
        assert torch.allclose(average, averages[0])
        prints(average[0].T, AVERAGES)


# ---- a single head


@pytest.mark.parametrize(
    ("seed", "var_k", "var_q", "var_raw", "var_scaled"),
    [(1337, 1.0449, 1.0700, 17.4690, 1.0918), (3, 0.9535, 1.0524, 15.1501, 0.9469)],
)
def test_the_scale_reduces_the_variance_of_scores_from_the_head_size_to_one(seed, var_k, var_q, var_raw, var_scaled):
    torch.manual_seed(seed)
    torch.randn(4, 8, 32)  # x, and then three linear layers
    for _ in range(3):
        nn.Linear(32, 16, bias=False)
    k, q = torch.randn(4, 8, 16), torch.randn(4, 8, 16)
    found = torch.stack([each.var() for each in (k, q, q @ k.mT, attention_scores(q, k))])
    prints(found, [var_k, var_q, var_raw, var_scaled])


@pytest.mark.parametrize(
    ("sharpened", "printed"),
    [(1, [0.1925, 0.1426, 0.2351, 0.1426, 0.2872]), (8, [0.0326, 0.0030, 0.1615, 0.0030, 0.8000])],
)
def test_large_scores_sharpen_the_weights_towards_the_largest(sharpened, printed):
    prints(attention_weights(torch.tensor([0.1, -0.2, 0.3, -0.2, 0.5]) * sharpened), printed)


# ---- many heads


class CausalSelfAttention(nn.Module):
    """The layer of the lecture notes, as written there."""

    def __init__(self, n_embd, n_head, block_size, dropout):
        super().__init__()
        self.key = nn.Linear(n_embd, n_embd)
        self.query = nn.Linear(n_embd, n_embd)
        self.value = nn.Linear(n_embd, n_embd)
        self.attn_drop = nn.Dropout(dropout)
        self.resid_drop = nn.Dropout(dropout)
        self.proj = nn.Linear(n_embd, n_embd)
        self.register_buffer("mask", torch.tril(torch.ones(block_size, block_size))[None, None])
        self.n_head = n_head

    def forward(self, x):
        B, T, C = x.size()
        k = self.key(x).view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        q = self.query(x).view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        v = self.value(x).view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        att = att.masked_fill(self.mask[:, :, :T, :T] == 0, float("-inf"))
        att = F.softmax(att, dim=-1)
        att = self.attn_drop(att)
        y = att @ v
        y = y.transpose(1, 2).contiguous().view(B, T, C)
        return self.resid_drop(self.proj(y))


@pytest.mark.parametrize("kernel", ["explicit", "fused"])
def test_the_layer_of_the_lecture_notes_with_our_weights_equals_ours(kernel):
    torch.manual_seed(3)
    ours = Attention(33, 3, causal=True, dropout=0.3, bias=True, kernel=kernel).double()
    theirs = CausalSelfAttention(33, 3, block_size=7, dropout=0.3).double()
    for number, layer in enumerate((theirs.query, theirs.key, theirs.value)):
        layer.weight.data, layer.bias.data = ours.qkv.weight.chunk(3)[number], ours.qkv.bias.chunk(3)[number]
    theirs.proj.load_state_dict(ours.proj.state_dict())
    x = torch.randn(2, 5, 33, dtype=torch.float64)
    torch.testing.assert_close(ours.eval()(x), theirs.eval()(x), rtol=0, atol=1e-12)
    if kernel == "explicit":  # with the same random bits they drop the same
        dropped = []
        for layer in (ours, theirs):
            torch.manual_seed(4)
            dropped.append(layer.train()(x))
        torch.testing.assert_close(*dropped, rtol=0, atol=1e-12)
