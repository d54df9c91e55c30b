"""The attention maps of the report page show the weights with which the heads of a saved GPT attend."""

import numpy as np
import pytest
import torch
from tiny import far_from_zero

from bukva.models.attention import explain
from bukva.models.folder import save_model
from bukva.models.gpt import GPT, GPTConfig
from bukva.report.attention import maps
from bukva.text.tokenizers import ByteTokenizer, CharTokenizer

TEXT, T, NH = "аб в\nабаб ва б в абв аб", 13, 2


@pytest.mark.parametrize("tokenizer", [CharTokenizer(sorted("\n абв")), ByteTokenizer()], ids=["characters", "bytes"])
@torch.inference_mode()
def test_a_map_shows_the_weights_of_a_head_on_the_beginning_of_a_text(tokenizer, tmp_path):
    gpt = far_from_zero(GPT(GPTConfig(len(tokenizer), 2, NH, 8, T, 0.0)))  # so that attention is not uniform
    save_model(tmp_path, gpt.config, tokenizer, {"best": dict(gpt.state_dict())})
    drawn = iter(maps(tmp_path, tmp_path, TEXT).items())
    ids = tokenizer.encode(TEXT)[:T].astype(np.int64)
    x = gpt.wte(torch.from_numpy(ids)[None]) + gpt.wpe(torch.arange(T))
    for layer, block in enumerate(gpt.blocks, start=1):
        q, k, v = block.attention.split_heads(block.attention.qkv(block.ln_1(x))).chunk(3, dim=1)
        _, weights = explain(q, k, v, causal=True)  # (1, NH, T, T)
        for head in range(NH):
            name, spec = next(drawn)
            [rows], shown = spec["datasets"].values(), np.zeros((T, T))
            for row in rows:
                shown[int(row["query"][:3]), int(row["key"][:3])] = row["weight"]
            assert name == f"layer {layer}, head {head + 1}"
            np.testing.assert_allclose(shown, weights[0, head], atol=0.006)
        x = block(x)
    labels = spec["encoding"]["x"]["scale"]["domain"]
    assert "".join(label[3:] for label in labels) == tokenizer.decode(ids).replace(" ", "␣").replace("\n", "⏎")
    assert list(drawn) == []
