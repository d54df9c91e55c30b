"""The encoder-decoder: an encoder reads a whole text, and a decoder that attends to it writes another one.

Source: the lecture notes, on translation; Vaswani et al. 2017, figure 1.
"""

import torch
from torch import Tensor, nn

from bukva.models.transformer import Transformer, TransformerConfig


class EncoderDecoder(nn.Module):
    """Two stacks of the same blocks: one without a mask for the source; one with a mask and a memory for the target."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.encoder = Transformer(config, causal=False)
        self.decoder = Transformer(config, causal=True, cross=True)
        self.lm_head = nn.Linear(config.n_embd, config.vocab_size, bias=False)
        nn.init.normal_(self.lm_head.weight, std=0.02)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """(B, S) ids to read and (B, T) ids written so far -> (B, T, V) logits of what follows each of them."""
        memory = self.encoder.encode(source)  # (B, S, C)
        return self.lm_head(self.decoder.encode(target, memory))

    @torch.inference_mode()
    def translate(self, source: Tensor, start: int, n_chars: int) -> Tensor:
        """(B, S) ids to read -> (B, n_chars) ids, each the likeliest; `start` is the id that opens a target.

        The model must be in evaluation mode.
        """
        memory, caches = self.encoder.encode(source), self.decoder.new_caches()
        last = torch.full((len(source), 1), start, device=source.device)  # (B, 1)
        written = []
        for _ in range(n_chars):
            last = self.lm_head(self.decoder.encode(last, memory, caches=caches)).argmax(-1)  # (B, 1)
            written.append(last)
        return torch.cat(written, dim=1)
