"""An encoder-decoder built from bukva.models.attention, which reads a whole text and writes another one.

Source: the lecture notes, on translation; Vaswani et al. 2017, figure 1.
"""

import dataclasses

import pytest
import torch
import torch.nn.functional as F
from tiny import far_from_zero
from torch import Tensor, nn

from bukva.models.attention import Attention
from bukva.models.gpt import GPT, NORMS, GPTConfig

V, B, T, S = 12, 2, 5, 7
START = V - 1  # first id of every target, which is not a letter
CONFIG = GPTConfig(vocab_size=V, n_layer=1, n_head=2, n_embd=32, block_size=S, dropout=0.0)


class EncoderDecoder(nn.Module):
    """Two GPTs: an encoder without a mask, and a decoder with cross-attention between its attention and its MLP."""

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.encoder, self.decoder = GPT(config, causal=False), GPT(config)
        C, n = config.n_embd, config.n_layer
        self.norms = nn.ModuleList(NORMS[config.norm](C) for _ in range(n))
        self.crosses = nn.ModuleList(
            Attention(C, config.n_head, causal=False, qk_norm=config.qk_norm, bias=config.bias) for _ in range(n)
        )

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """(B, S) ids to read and (B, T) ids written so far -> (B, T, V) logits of what follows each of them."""
        memory = self.encoder.encode(source)  # (B, S, C)
        x, cos_sin = self.decoder.embed(target, 0)  # (B, T, C)
        for block, norm, cross in zip(self.decoder.blocks, self.norms, self.crosses, strict=True):
            x = x + block.attention(block.ln_1(x), cos_sin=cos_sin)
            x = x + cross(norm(x), memory)
            x = x + block.mlp(block.ln_2(x))
        return self.decoder.lm_head(self.decoder.ln_f(x))

    @torch.inference_mode()
    def translate(self, source: Tensor, start: int, n_chars: int) -> Tensor:
        """(B, S) ids to read -> (B, n_chars) ids, each the likeliest; `start` is the id that opens a target."""
        written = torch.full((len(source), 1), start, device=source.device)
        for _ in range(n_chars):
            written = torch.cat([written, self(source, written)[:, -1:].argmax(-1)], dim=1)
        return written[:, 1:]


def ids(*shape, seed=6):
    return torch.randint(START, shape, generator=torch.Generator().manual_seed(seed))


def changes(write, read):
    """Return (T, S): whether the output at t changes with the input id at s."""
    before, columns = write(read), []
    for s in range(read.shape[1]):
        changed = read.clone()
        changed[:, s] = (read[:, s] + 1) % START
        columns.append((write(changed) != before).any(-1).any(0))
    return torch.stack(columns, dim=1)


def test_the_decoder_sees_the_past_of_the_target_and_all_of_the_source_as_the_encoder_does():
    modern = {"positions": "rotary", "norm": "rmsnorm", "qk_norm": True, "bias": True}
    model = far_from_zero(EncoderDecoder(dataclasses.replace(CONFIG, n_layer=2, **modern)).double())
    source, target = ids(B, S), ids(B, T, seed=7)
    assert torch.equal(changes(lambda target: model(source, target), target), torch.ones(T, T).tril().bool())
    assert changes(lambda source: model(source, target), source).all()
    assert changes(model.encoder.encode, source).all()


@pytest.mark.slow
def test_it_learns_to_reverse_strings_that_it_was_not_trained_on():
    """The model is trained on 10,000 of the 19 million strings of seven letters, each with its reverse."""
    torch.manual_seed(3)
    model, rng = EncoderDecoder(CONFIG), torch.Generator().manual_seed(3)
    optimizer = torch.optim.AdamW(model.parameters(), betas=(0.9, 0.99))
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1e-2, total_steps=200, cycle_momentum=False)
    for _ in range(200):
        source = torch.randint(START, (50, S), generator=rng)
        so_far = F.pad(source.flip(1)[:, :-1], (1, 0), value=START)
        nats = F.cross_entropy(model(source, so_far).flatten(0, 1), source.flip(1).flatten())
        optimizer.zero_grad()
        nats.backward()
        optimizer.step()
        schedule.step()
    source = ids(64, S)
    assert model.eval().translate(source, START, S).tolist() == source.flip(1).tolist()
