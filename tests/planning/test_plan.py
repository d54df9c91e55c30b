"""The arithmetic of a plan: the updates that fit into a budget, the warnings, and the values for params.yaml."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plans import RAW, plan

from bukva.config.load import parse_params
from bukva.config.schema import MOST_STEPS
from bukva.core.errors import BukvaError
from bukva.planning.plan import parse_budget, warnings


def test_a_budget_is_a_number_with_its_unit_or_an_error_with_examples():
    seconds = {text: parse_budget(text) for text in ("90s", "10min", "1h30min", "1h5s", "1.5h", "720h")}
    assert seconds == {"90s": 90, "10min": 600, "1h30min": 5400, "1h5s": 3605, "1.5h": 5400, "720h": 2_592_000}
    wrong = (
        "",
        "10",
        "min",
        "10m",
        "10 min",
        "30min1h",
        "-5min",
        "1e3s",
        "10min,",
        "١s",
        "0s",
        "720h1s",
        "9" * 400 + "h",
    )
    for text in wrong:
        with pytest.raises(BukvaError) as error:
            parse_budget(text)
        assert str(error.value) == (
            f"BUDGET {text!r} is not a time between 0 and 30 days. Use the units h, min and s, for example `90s`, "
            "`10min`, `1h30min` or `2h`."
        )


def test_updates_fill_the_time_beside_scorings():
    """11 scorings of 3 s leave 906 of 939 s, enough for 1812 updates of half a second."""
    one = plan()
    assert one.n_scorings == 10
    recipe = {"batch_size": 7, "n_steps": 1812, "warmup_steps": 36, "eval_every": 182}
    assert one.values() == {"model": {"n_layer": 1, "n_head": 1, "n_embd": 32}, "train_gpt": recipe}
    assert one.chars == 1812 * 70
    assert one.epochs == 1812 * 70 / 500_000
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
    assert any("has 12.7 epochs" in line and "`train_gpt.patience=3` stops" in line for line in warnings(often))
    assert "patience" not in seldom.values()["train_gpt"]
    assert not any("patience" in line for line in warnings(seldom))


def test_a_plan_names_its_batch():
    assert "1.00k parameters, 7 windows per batch | " in str(plan())
