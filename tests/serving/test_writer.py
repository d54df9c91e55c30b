"""A writer: the text and the bits of a model, as generation and scoring have them."""

import numpy as np
import pytest
import torch
from imports import SHIPPED

from bukva.backends.device import Machine
from bukva.core.params import read_params
from bukva.evaluation.samples import prompt_generator
from bukva.evaluation.sampling import generate, generate_each
from bukva.models.gpt import GPTConfig
from bukva.models.ngram_gpt import NgramGPT
from bukva.models.registry import build
from bukva.models.window_rule import nats_of, stride_of
from bukva.serving.writer import Writer
from bukva.text.ids import bits
from bukva.text.tokenizers.base import ByteTokenizer
from bukva.text.tokenizers.bpe import BPETokenizer
from bukva.text.tokenizers.char import CharTokenizer

FP32 = Machine(torch.device("cpu"), torch.float32)
TEXT = "аб вг, аб!\n" * 3  # longer than two windows
T = 11
TOKENIZERS = {
    "char": CharTokenizer(sorted("\n !,абвг")),
    "bpe": BPETokenizer.train([TEXT * 20], 263),
}


def sharp_gpt(vocab_size, **shape):
    """One that is far from equally likely characters."""
    torch.manual_seed(5)
    model = build(GPTConfig(vocab_size, 2, 2, 20, T, 0.0, **shape)).eval()
    for parameter in model.parameters():
        parameter.data.mul_(6)
    return model


@pytest.fixture(params=["char", "bpe"])
def writer(request):
    tokenizer = TOKENIZERS[request.param]
    return Writer(sharp_gpt(len(tokenizer)), tokenizer, FP32)


def how(**changes):
    return read_params(SHIPPED).sample.model_copy(update={"n_chars": 37, "temperature": 0.9, "seed": 3} | changes)


def test_it_writes_what_generation_does_to_the_last_piece(writer):
    ids = torch.from_numpy(writer.tokenizer.encode("аб").astype(np.int64))[None]
    wanted = generate(writer.model, ids, 37, temperature=0.9, top_k=5, top_p=0.9, rng=prompt_generator(3, 1))
    pieces = [piece.text for piece in writer.write("аб", how(top_k=5, top_p=0.9))]
    assert "".join(pieces) == writer.tokenizer.decode(wanted[0].numpy())
    assert all(pieces)


def test_bits_are_those_of_the_window_rule_and_the_first_piece_has_none(writer):
    ids = writer.tokenizer.encode(TEXT)
    first, *others = writer.score(TEXT)
    assert first.bits is None
    wanted = bits(1) * nats_of(writer.model, ids, T, stride_of(T))
    np.testing.assert_allclose([piece.bits for piece in others], wanted, rtol=1e-6)
    assert "".join([first.text, *(piece.text for piece in others)]) == TEXT


def test_a_character_of_several_bytes_is_written_whole():
    writer = Writer(sharp_gpt(256), ByteTokenizer(), FP32)
    with torch.no_grad():
        writer.model.lm_head.weight.zero_()
    bias = torch.full((256,), -50.0)
    bias[list("д".encode())] = 0.0  # two bytes, in any order
    writer.model.lm_head = torch.nn.Linear(20, 256)
    writer.model.lm_head.weight.data.zero_()
    writer.model.lm_head.bias.data = bias
    pieces = list(writer.write("а", how(n_chars=40, temperature=1.0)))
    whole = [piece for piece in pieces if piece.text == "д"]
    assert whole
    assert [round(piece.bits, 3) for piece in whole] == [2.0] * len(whole)  # one bit a byte
    assert "".join(piece.text for piece in pieces).replace("\ufffd", "д").strip("д") == ""


def test_the_likeliest_pieces_are_those_of_the_model_after_the_last_window(writer):
    ids = torch.from_numpy(writer.tokenizer.encode(TEXT).astype(np.int64))
    stride = stride_of(T)
    start = next(start for start in range(0, len(ids), stride) if len(ids) - start <= T)
    with torch.no_grad():
        wanted = writer.model(ids[start:][None])[0, -1].softmax(-1).sort(descending=True)
    found = writer.likeliest(TEXT, 3)
    assert [piece for piece, _ in found] == [writer.tokenizer.pieces[i] for i in wanted.indices[:3]]
    np.testing.assert_allclose([p for _, p in found], wanted.values[:3], rtol=1e-5)
    assert len(writer.likeliest(TEXT, 1000)) == len(writer.tokenizer)


def test_the_likeliest_pieces_of_a_model_with_counts_are_those_that_it_would_write():
    model = sharp_gpt(8, ngrams="logits", ngram_orders=(11,))  # looks further back than the last window
    model.ngrams.count(TOKENIZERS["char"].encode(TEXT * 20))
    writer = Writer(model, TOKENIZERS["char"], FP32)
    ids = torch.from_numpy(writer.tokenizer.encode(TEXT).astype(np.int64))[None]
    _, logits = next(generate_each(model, ids, 1, temperature=0.0, top_k=0, top_p=1.0, rng=torch.Generator()))
    wanted = logits[0].softmax(-1).sort(descending=True).values
    np.testing.assert_allclose([p for _, p in writer.likeliest(TEXT, 8)], wanted, rtol=1e-5)


def test_what_a_model_cannot_read_is_left_out():
    writer = Writer(sharp_gpt(8), TOKENIZERS["char"], FP32)
    assert writer.readable("aбéв") == "бв"
    assert writer.readable("é") == "\n" == writer.readable("")
    without = Writer(sharp_gpt(2), CharTokenizer(["а", "б"]), FP32)
    assert without.readable("") == "а"
    assert [(piece.text, piece.bits) for piece in without.score("а")] == [("а", None)]


def test_one_without_what_its_model_counts_writes_with_the_network():
    torch.manual_seed(5)
    model = NgramGPT(GPTConfig(8, 1, 2, 20, T, 0.0, ngrams="logits", ngram_orders=(3,))).eval()
    model.ngrams.count(TOKENIZERS["char"].encode(TEXT * 20))
    torch.nn.init.normal_(model.lm_head.weight)
    writer = Writer(model, TOKENIZERS["char"], FP32)
    whole, alone = writer.score(TEXT), writer.without_ngrams().score(TEXT)
    assert [piece.bits for piece in alone[1:]] != [piece.bits for piece in whole[1:]]
    wanted = nats_of(model.without_ngrams(), writer.tokenizer.encode(TEXT), T, stride_of(T)) * bits(1)
    np.testing.assert_allclose([piece.bits for piece in alone[1:]], wanted, rtol=1e-6)
