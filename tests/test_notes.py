"""The lecture notes, replayed: our functions give what their cells print, with their seeds, to the last printed digit.

Two kinds of numbers cannot be replayed without the corpus of the notes: the loss of update 1, whose batch is unknown,
and what follows the training (loss 2.5729 and the trained sample). The lesson has the code of these cells.
"""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from bukva.evaluation.sampling import generate
from bukva.models.attention import attention_scores, attention_weights, causal_mask
from bukva.models.bigram import Bigram, BigramConfig
from bukva.text.tokenizers import CharTokenizer


def prints(tensor, numbers):
    """Assert that torch prints these numbers, with four digits after the point."""
    torch.testing.assert_close(tensor.detach(), torch.tensor(numbers), rtol=0, atol=5e-5)


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
    assert TOKENIZER.decode(BATCH) == "х. Отряд а человексебе ими рное, жде"


BATCH = [70, 6, 1, 31, 67, 65, 80, 53, 1, 49, 1, 72, 54, 60, 63, 51, 54, 59,
         66, 54, 50, 54, 1, 57, 61, 57, 1, 65, 62, 63, 54, 4, 1, 55, 53, 54]  # fmt: skip
X, Y = (torch.tensor(BATCH).view(4, 9)[:, start : start + 8] for start in (0, 1))


SAMPLE = (
    "\nПхчМнЭХ–г!,цЙщЫ,рАНвщiсЛжрЭтЗБИзняН—\u0301’зЩЯщБги;ыРуШжмгЕЙСыТПУг–"
    "ПФЦырщп\u0301ФЕпЫЧпо\u00a0т!Их-фУЬюш–лрёФъЛшШi:пМш’\u0300Гб—мСЁМвєГчВ\nХ\u0300Ю&ТЁбє"
    "Йлкiыубц\nЛИЭЫтущп\u0301оНд:р:мвущфНдеєоЪЬЁІЙёЯэбИ?кІЙнЉк’є\u00a0РЙ!Ип’м-о"
    "ф&ЙЦкЭ’,Хп\u0301каыцУуйНБ\nН’лЯШшРОящ\nСБШОЮЁфу;—––тЯэ?ЁеЛзІыцфшАзП;є"
)


def test_the_untrained_bigram_has_the_printed_loss_and_generates_the_printed_250_characters():
    torch.manual_seed(3)
    torch.randint(int(0.8 * 34_824_628) - 8, (4,))  # the places of the batch, and then the table
    bigram = Bigram(BigramConfig(V, block_size=8))
    prints(F.cross_entropy(bigram(X).flatten(0, 1), Y.flatten()), 4.8334)
    context = torch.tensor([TOKENIZER.encode("\n").tolist()])
    written = generate(bigram, context, 250, temperature=1, top_k=0, top_p=1, rng=torch.Generator().manual_seed(3))
    assert "\n" + TOKENIZER.decode(written[0]) == SAMPLE


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
    prints((weights @ x)[0].T, AVERAGES)


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
