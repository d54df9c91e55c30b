"""`bukva plan` measures sizes of a GPT for a short time, and proposes the training that fits into a time budget."""

import math
import re
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML
from typer.testing import CliRunner

from bukva.cli import planning
from bukva.cli.app import app
from bukva.cli.planning import LADDER, Plan, Stopwatch, parse_budget, plans, propose, warnings
from bukva.core.errors import BukvaError
from bukva.core.params import PARAMS, parse_params, read_params
from bukva.core.schema import MOST_STEPS
from bukva.project.stages import paths
from bukva.text.tokenizers import CharTokenizer, save_tokenizer
from bukva.training.state import Progress
from tests.support.imports import SHIPPED

BLOCK_SIZE, VOCABULARY = 11, "абвгдеё"
RAW = YAML(typ="safe").load(SHIPPED.read_text(encoding="utf-8"))
MODEL = {"n_layer": 1, "n_head": 1, "n_embd": 32}


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project with a tiny split text, and with parameters that use one thread."""
    text = SHIPPED.read_text(encoding="utf-8").replace("  threads: 0", "  threads: 1")
    (tmp_path / PARAMS).write_text(text.replace("  block_size: 64", f"  block_size: {BLOCK_SIZE}"), encoding="utf-8")
    for name in ("split", "tokens"):
        (tmp_path / paths()[name]).mkdir(parents=True)
    save_tokenizer(tmp_path / paths()["tokens"], CharTokenizer.train([VOCABULARY]))
    for split, n in (("train", 307), ("val", 101)):
        np.save(tmp_path / paths()["split"] / f"{split}.npy", (np.arange(n) % len(VOCABULARY)).astype(np.uint8))
    monkeypatch.chdir(tmp_path)


def plan(seconds=939, train_chars=500_000, n_parameters=1000, seconds_per_update=0.5, seconds_per_scoring=3.0):
    """Return a plan for a budget of `seconds` with 70 characters in each update."""
    return Plan(seconds, train_chars, MODEL, n_parameters, 7, 70, seconds_per_update, seconds_per_scoring)


def test_a_budget_is_a_number_with_its_unit_or_an_error_with_examples():
    seconds = {text: parse_budget(text) for text in ("90s", "10min", "1h30min", "1h5s", "1.5h", "720h")}
    assert seconds == {"90s": 90, "10min": 600, "1h30min": 5400, "1h5s": 3605, "1.5h": 5400, "720h": 2_592_000}
    wrong = ("", "10", "min", "10m", "10 min", "30min1h", "-5min", "1e3s", "10min,", "١s", "0s", "720h1s", "9" * 400)
    said = r"^BUDGET '.*' is not a time between 0 and 30 days\. Use the units h, min and s, for example `90s`, "
    for text in wrong:
        with pytest.raises(BukvaError, match=said):
            parse_budget(text)


# ---- the arithmetic of a plan


def test_updates_fill_the_time_beside_scorings():
    """11 scorings of 3 s leave 906 of 939 s, enough for 1812 updates of half a second."""
    one = plan()
    assert one.n_scorings == 10
    recipe = {"batch_size": 7, "n_steps": 1812, "warmup_steps": 36, "eval_every": 182}
    assert one.values() == {"model": MODEL, "train_gpt": recipe}
    assert one.epochs == 1812 * 70 / 500_000
    assert "1.00k parameters, 7 windows per batch | 140 chars/s | 1,812 steps, 127k chars, 126.8 per" in str(one)
    # a fifth of 939 s is enough for four scorings of 40 s; one of them is before the first update
    assert plan(seconds_per_scoring=40.0).n_scorings == 3
    assert plan(seconds_per_scoring=300.0).n_scorings == 1  # the last scoring is always made


@settings(max_examples=30)
@given(seconds=st.floats(1, 1e6), update=st.floats(1e-4, 100), scoring=st.floats(1e-3, 1e3))
def test_updates_and_scorings_never_exceed_the_time(seconds, update, scoring):
    one = plan(seconds, seconds_per_update=update, seconds_per_scoring=scoring)
    eval_every = one.values()["train_gpt"]["eval_every"]
    scored = {0, *range(0, one.n_steps + 1, eval_every), one.n_steps}  # the steps at which the loop scores
    if one.n_steps:
        assert one.n_steps * update + len(scored) * scoring <= seconds * (1 + 1e-9)
        parse_params(RAW | {section: RAW[section] | keys for section, keys in one.values().items()}, "params.yaml")
    more = (one.n_steps + 1) * update + (one.n_scorings + 1) * scoring
    assert one.n_steps == MOST_STEPS or more > seconds * (1 - 1e-9)


def test_a_plan_that_reads_the_text_often_ends_when_val_does_not_improve_and_says_so():
    """1812 updates of 70 characters are 12.7 epochs of a text of 10,000 characters."""
    often, seldom = plan(train_chars=10_000), plan(train_chars=40_000)
    assert often.values()["train_gpt"]["patience"] == 3
    assert ["has 12.7 epochs" in line and "`train_gpt.patience=3` stops" in line for line in warnings(often)] == [True]
    assert list(warnings(seldom)) == []


def test_the_largest_size_that_sees_twenty_characters_per_parameter_is_chosen():
    """1812 updates of 70 characters give 6342 parameters 20 characters each."""
    small, middle, large, larger = (plan(n_parameters=n) for n in (1000, 6342, 6343, 30_000))
    assert propose([small, middle, large]) is middle
    assert propose([large, larger]) is large  # neither has enough text
    with pytest.raises(BukvaError, match=r"leave no time for an update\. Use a longer BUDGET\.$"):
        propose([plan(seconds=5)])


# ---- the measurement


def test_the_stopwatch_times_the_scoring_and_updates_after_the_first_ones_until_a_second_is_over(monkeypatch):
    """Scoring takes 5 s and the first two updates take 90 s. Every later update takes 0.3 s."""
    readings = iter([100.0, 105.0, 105.0, 150.0, 150.0, 195.0, 195.0, 195.3, 195.6, 195.9, 196.2])
    monkeypatch.setattr(planning, "now", lambda: next(readings))
    stopwatch, state = Stopwatch(), SimpleNamespace(stop_requested=False)
    for step in range(7):
        assert not state.stop_requested
        stopwatch.on_update(state, Progress(step, 0, 0.0))
    assert state.stop_requested
    assert (stopwatch.seconds_per_scoring, stopwatch.seconds_per_update) == (5.0, pytest.approx(0.3))


def test_sizes_are_measured_up_to_the_first_that_sees_too_little_or_does_not_fit(project, monkeypatch):
    """Each training scores 50 of the 100 characters of val in 3 s, and an update takes 1 s."""
    monkeypatch.setattr(planning, "SCORED_IDS", 50)

    def measure(n_fitting):
        def run(task, state, callbacks):
            assert len(task.windows.ids) == 307
            if state.model.config.n_embd >= (*(n_embd for _, n_embd, _ in LADDER), math.inf)[n_fitting]:
                raise torch.OutOfMemoryError
            for callback in callbacks:
                if isinstance(callback, Stopwatch):
                    callback.seconds_per_scoring, callback.seconds_per_update = 3.0, 1.0

        monkeypatch.setattr(planning, "run_training", run)
        return list(plans(read_params(), 200_000.0, time.perf_counter()))

    monkeypatch.setattr(planning, "start", lambda task: SimpleNamespace(model=task.build()))
    made = measure(len(LADDER))
    assert [one.is_enough for one in made] == [True] * (len(made) - 1) + [False]
    assert len(made) > 2
    for one, (n_layer, n_embd, factor) in zip(made, LADDER, strict=False):
        assert one.model == {"n_layer": n_layer, "n_head": n_embd // 32, "n_embd": n_embd}
        assert one.batch_size == 16 * factor == one.chars_per_update // BLOCK_SIZE
        assert (one.seconds_per_update, one.seconds_per_scoring) == (1.0, 6.0)
        assert 180_000 < one.seconds < 190_000
    assert len(measure(1)) == 1
    with pytest.raises(torch.OutOfMemoryError):
        measure(0)


def test_a_plan_is_proposed_for_a_text_that_is_split(project, monkeypatch):
    """A tiny text and one thread. The command briefly measures two toy sizes."""
    monkeypatch.setattr(planning, "LADDER", [(1, 32, 1), (1, 64, 1)])
    monkeypatch.setattr(planning, "LEAST_SECONDS", 1e-9)
    said = CliRunner().invoke(app, ["plan", "1h"]).stdout
    assert said.startswith("plan: 1 layer, 32 channels, ")
    assert re.search(r"\nTo train this model: `dvc exp run -S model.n_layer=1 .*-S train_gpt.n_steps=\d+", said)
    assert "train_gpt.patience" in said  # an hour of training on 307 characters overfits
    for file in Path(paths()["split"]).iterdir():
        file.unlink()
    incomplete = "The text is not split yet, so data/split is incomplete. Run `dvc repro split`."
    assert str(CliRunner().invoke(app, ["plan", "1h"]).exception) == incomplete
