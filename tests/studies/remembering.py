"""Small GPTs with a memory, and the text that they have counted, for the tests of this folder and of the report."""

import numpy as np
import torch
from studies.small import T, V, nh, random_text
from torch import nn

from bukva.models.gpt import GPT, GPTConfig

ORDERS = (2, 3, 5)
WORKS = [67, 5, 131]
TRAIN = (random_text(sum(WORKS)) % 5).astype(np.uint8)  # two characters are not in train
VAL = [31, 2, 23]
SPLITS = {"train": TRAIN, "val": random_text(sum(VAL), seed=5)}
LENGTHS = {"train": np.array(WORKS), "val": np.array(VAL)}


def remembering(ngrams="input", *, sharp=True):
    """A GPT in evaluation mode that has counted TRAIN; sharp: its weights are as large as after training."""
    torch.manual_seed(3)
    config = GPTConfig(V, 2, nh, 10, T, 0.0, ngrams=ngrams, ngram_dropout=0.5, network_loss=0.5, ngram_orders=ORDERS)
    model = GPT(config).eval()
    if sharp:
        for parameter in model.parameters():
            parameter.data.mul_(8)
        nn.init.normal_(model.experts.weights.weight, std=0.1)
        nn.init.uniform_(model.experts.weights.bias)
    model.count(TRAIN)
    return model
