"""From logits to text: the distribution that the model gives at every character of a text that it writes."""

from typing import Any

import numpy as np
import torch

from bukva.generation.sampling import generate
from bukva.models.gpt import GPT
from bukva.text.ids import bits
from bukva.text.tokenizers.base import Tokenizer

TEMPERATURES = (0.25, 0.5, 1.0, 1.5)
TOP = 5
N_IDS = 32
SEED = 1337


@torch.inference_mode()
def forecast(gpt: GPT, tokenizer: Tokenizer, prompt: str) -> dict[str, Any]:
    """Continue a prompt as far as the block allows, and record the distribution before each character.

    Returns:
        unit, prompt, temperatures, and for each id written: char (its piece), top (the five likeliest and their
        probability), and entropy in bits at each temperature.
    """
    n_ids = min(N_IDS, gpt.block_size - 1)
    read = tokenizer.encode(prompt)[: gpt.block_size - n_ids]
    ids = torch.from_numpy(read.astype(np.int64))[None].to(gpt.wte.weight.device)  # (1, T)
    rng = torch.Generator().manual_seed(SEED)
    written = generate(gpt, ids, n_ids, temperature=0.8, top_k=0, top_p=1.0, rng=rng)
    text = torch.cat([ids, written], dim=1)
    logits = gpt(text[:, :-1])[0, len(read) - 1 :].float()  # (n_ids, V): position t predicts character t + 1
    probabilities, likeliest = logits.softmax(-1).topk(min(TOP, logits.shape[-1]))
    entropies = torch.stack([_entropy(logits / temperature) for temperature in TEMPERATURES], dim=1)
    pieces = tokenizer.pieces
    return {
        "unit": tokenizer.unit,
        "prompt": tokenizer.decode(read),
        "temperatures": list(TEMPERATURES),
        "chars": [
            {
                "char": pieces[int(written[0, i])],
                "top": [[pieces[int(j)], float(p)] for j, p in zip(likeliest[i], probabilities[i], strict=True)],
                "entropy": [bits(float(nats)) for nats in entropies[i]],
            }
            for i in range(n_ids)
        ],
    }


def _entropy(logits: torch.Tensor) -> torch.Tensor:
    """(..., V) logits -> (...) nats."""
    return torch.special.entr(logits.softmax(-1)).sum(-1)
