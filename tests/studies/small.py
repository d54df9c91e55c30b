"""Small models and random texts for the tests of this folder."""

import numpy as np
import torch

from bukva.backends.device import Machine
from bukva.models.gpt import GPT, GPTConfig
from bukva.text.tokenizers.char import CharTokenizer

CHARS = ["\n", " ", "!", "а", "б", "в", "г"]
V, T, B, nh = len(CHARS), 11, 3, 2
TOKENIZER = CharTokenizer(CHARS)
CPU = Machine(torch.device("cpu"), torch.float32)


def gpt(n_layer=2, *, sharp=True):
    """A GPT in evaluation mode; sharp: its weights are as large as after training, its attention far from uniform."""
    torch.manual_seed(3)
    model = GPT(GPTConfig(V, n_layer, nh, 10, T, 0.0)).eval()
    if sharp:
        for parameter in model.parameters():
            parameter.data.mul_(8)
    return model


def random_ids(*shape, seed=1):
    """A tensor of ids, of any shape."""
    return torch.randint(V, shape, generator=torch.Generator().manual_seed(seed))


def random_text(n, seed=2):
    """(n,) ids as they are on disk."""
    return np.random.default_rng(seed).integers(V, size=n).astype(np.uint8)


def uniform_weights(n=B):
    """(n, nh, T, T), the plain average of the past."""
    return torch.ones(T, T).tril().div(torch.arange(1, T + 1)[:, None]).expand(n, nh, T, T)
