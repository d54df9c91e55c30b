"""From logits to text: what the model holds possible at every character of a text it has written."""

from typing import Any

import numpy as np
import torch

from bukva.base.units import bits
from bukva.generation.sampling import generate
from bukva.models.gpt import GPT
from bukva.tokenizers.base import Tokenizer

TEMPERATURES = (0.25, 0.5, 1.0, 1.5)
TOP = 5
N_CHARS = 32
SEED = 1337


@torch.inference_mode()
def forecast(gpt: GPT, tokenizer: Tokenizer, prompt: str) -> dict[str, Any]:
    """Let the model go on from a prompt, as far as its block allows, and tell what it expected at each character.

    Returns:
        prompt, temperatures, and for each character written: char, top (the five likeliest and their probability), and
        entropy in bits at each temperature.
    """
    n_chars = min(N_CHARS, gpt.block_size - 1)
    prompt = prompt[: gpt.block_size - n_chars]
    ids = torch.from_numpy(tokenizer.encode(prompt).astype(np.int64))[None].to(gpt.wte.weight.device)  # (1, T)
    rng = torch.Generator().manual_seed(SEED)
    written = generate(gpt, ids, n_chars, temperature=0.8, top_k=0, top_p=1.0, rng=rng)
    text = torch.cat([ids, written], dim=1)
    logits = gpt(text[:, :-1])[0, len(prompt) - 1 :].float()  # (n_chars, V): position t expects character t + 1
    chances, likeliest = logits.softmax(-1).topk(min(TOP, logits.shape[-1]))
    entropies = torch.stack([_entropy(logits / temperature) for temperature in TEMPERATURES], dim=1)
    return {
        "prompt": prompt,
        "temperatures": list(TEMPERATURES),
        "chars": [
            {
                "char": tokenizer.decode([int(written[0, i])]),
                "top": [[tokenizer.decode([int(j)]), float(p)] for j, p in zip(likeliest[i], chances[i], strict=True)],
                "entropy": [bits(float(nats)) for nats in entropies[i]],
            }
            for i in range(n_chars)
        ],
    }


def _entropy(logits: torch.Tensor) -> torch.Tensor:
    """(..., V) logits -> (...) nats."""
    return torch.special.entr(logits.softmax(-1)).sum(-1)
