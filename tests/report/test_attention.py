"""The report on attention, from studies of small models."""

import pytest
import torch
from interpret.small import CPU, PARAMS, TOKENIZER, V, gpt, random_text

from bukva.interpret.study import study
from bukva.models.gpt import GPT, GPTConfig
from bukva.report.attention import attention_report

SPLITS = {"train": random_text(300), "val": random_text(60, seed=5)}


@pytest.mark.slow
def test_the_report_is_complete_and_has_the_same_bytes_each_time(tmp_path):
    found = study({"untrained": gpt(sharp=False), "trained": gpt()}, TOKENIZER, SPLITS, PARAMS, CPU)
    for name in ("a", "b"):
        attention_report(found, tmp_path / name, "digest")
    contents = [{file.name: file.read_bytes() for file in (tmp_path / name).iterdir()} for name in ("a", "b")]
    assert contents[0] == contents[1]
    figures = {"weights_untrained", "weights_trained", "heads", "scale", "worth", "context", "leak", "forecast"}
    assert set(contents[0]) == {"attention.json", *(f"{figure}.png" for figure in figures)}
    assert all(data.startswith(b"\x89PNG") for name, data in contents[0].items() if name.endswith(".png"))


def test_a_model_of_one_layer_and_one_head_is_drawn(tmp_path):
    torch.manual_seed(1)
    states = {state: GPT(GPTConfig(V, 1, 1, 6, 2, 0.0)).eval() for state in ("untrained", "trained")}
    attention_report(study(states, TOKENIZER, SPLITS, PARAMS, CPU), tmp_path / "report", "digest")
    assert len(list((tmp_path / "report").iterdir())) == 9
