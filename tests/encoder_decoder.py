"""The encoder-decoder: an encoder reads a whole text, and a decoder that attends to it writes another one.

Source: the lecture notes, on translation; Vaswani et al. 2017, figure 1.
"""

import torch
from torch import Tensor, nn

from bukva.models.attention import Attention
from bukva.models.gpt import GPT, NORMS, GPTConfig


class EncoderDecoder(nn.Module):
    """Two GPTs: one without a mask for the source; one with a mask, and between attention and MLP another attention."""

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
