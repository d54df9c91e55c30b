"""The score by length of context, against one forward pass per character."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from studies.small import TOKENIZER, T, gpt, random_text
from torch import nn

from bukva.studies.attention_study import score_by_context


def test_a_length_of_context_means_exactly_that_many_characters():
    model, run = gpt(), random_text(60)
    nn.init.normal_(model.wpe.weight)  # so that every position matters
    found = {row["chars"]: row for row in score_by_context(model, run, TOKENIZER, 1000)}
    assert list(found) == [1, 2, 4, 8, 11]
    for n, row in found.items():
        nats = []
        for i in range(T, len(run)):
            logits = model(torch.from_numpy(run[i - n : i].astype(np.int64))[None])[0, -1]
            nats.append(F.cross_entropy(logits, torch.tensor(int(run[i]))).item())
        assert row["bits_per_char"] == pytest.approx(np.mean(nats) / math.log(2), abs=1e-4)
    assert found[T]["standard_error"] == 0 < found[1]["standard_error"]
