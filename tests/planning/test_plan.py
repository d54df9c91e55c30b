"""The arithmetic of a plan: what fits into a budget, what is said about it, and its lines of params.yaml."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plans import RAW, TEXT, plan

from bukva.config.load import PARAMS, parse_params, read_params
from bukva.config.schema import MOST_STEPS
from bukva.core.errors import BukvaError
from bukva.planning.plan import Budget, differences, merge, parse_budget, write


def test_a_budget_is_a_number_with_its_unit_or_an_error_with_examples():
    found = {text: parse_budget(text) for text in ("90s", "10min", "1h30min", "1h5s", "1.5h", "720h")}
    assert found == {"90s": 90, "10min": 600, "1h30min": 5400, "1h5s": 3605, "1.5h": 5400, "720h": 2_592_000}
    for text in ("", "10", "min", "10m", "10 min", "30min1h", "-5min", "1e3s", "10min,", "١s"):
        with pytest.raises(BukvaError) as error:
            parse_budget(text)
        assert str(error.value) == (
            f"BUDGET {text!r}: not a time with its unit (h, min, s); use for example 90s, 10min, 1h30min or 2h."
        )
    for text in ("0s", "0.0s", "720h1s", "9" * 400 + "h"):
        with pytest.raises(BukvaError, match=r"use more than 0 and at most 30 days, for example 90s, .* or 2h\.$"):
            parse_budget(text)


def test_updates_fill_the_budget_beside_start_up_scorings_and_reserve():
    """1000 s less 5 %, 11 s of start-up and 11 scorings of 3 s leave 906 s: 1812 updates of half a second."""
    one = plan()
    assert (one.n_scorings, one.n_steps, one.eval_every, one.warmup_steps) == (10, 1812, 182, 36)
    assert one.chars == 1812 * 70
    assert one.chars_per_parameter == 126.84
    assert one.epochs == 1812 * 70 / 500_000
    # a fifth of 939 s holds four scorings of 40 s; one of them is before the first update
    assert plan(seconds_per_scoring=40.0).n_scorings == 3
    assert plan(seconds_per_scoring=300.0).n_scorings == 1  # the last one is always made


@settings(max_examples=30)
@given(
    seconds=st.floats(1, 1e6),
    startup=st.floats(0, 100),
    update=st.floats(1e-4, 100),
    scoring=st.floats(1e-3, 1e3),
)
def test_updates_and_scorings_never_exceed_the_budget(seconds, startup, update, scoring):
    one = plan(Budget(seconds, startup, 1000), seconds_per_update=update, seconds_per_scoring=scoring)
    scored = {0, *range(0, one.n_steps + 1, one.eval_every), one.n_steps}  # the steps at which the loop scores
    if one.n_steps:
        assert startup + one.n_steps * update + len(scored) * scoring <= 0.95 * seconds * (1 + 1e-9)
        parse_params(merge(RAW, one.values()), "params.yaml")
    assert one.n_steps == MOST_STEPS or one.seconds_for(one.n_steps + 1) > seconds * (1 - 1e-9)


# ---- params.yaml


@pytest.fixture
def file(tmp_path):
    """A copy of params.yaml."""
    copy = tmp_path / PARAMS
    copy.write_text(TEXT, encoding="utf-8")
    return copy


def test_writing_changes_the_lines_of_these_values_and_no_other_byte(file):
    values = plan().values()
    write(values, file)
    wanted = TEXT
    for section, keys in values.items():
        head, found, rest = wanted.partition(f"\n{section}:\n")
        for key, value in keys.items():
            rest = re.sub(rf"(?m)^  {key}: .*$", f"  {key}: {value}", rest, count=1)
        wanted = head + found + rest
    assert file.read_text(encoding="utf-8") == wanted != TEXT
    assert read_params(file).model_dump() == merge(RAW, values)


def test_values_that_are_invalid_or_in_the_file_already_leave_it_alone(file):
    odd = TEXT.replace("  n_head: 4", "  n_head:   0x4  # four").replace("\n", "\r\n").encode()  # not as DVC writes it
    file.write_bytes(odd)
    write({"model": {"n_head": 4}}, file)
    with pytest.raises(BukvaError, match="warmup_steps: 20 is more than n_steps 10"):
        write({"train_gpt": {"n_steps": 10, "eval_every": 10, "warmup_steps": 20}}, file)
    assert file.read_bytes() == odd
    changes = differences(RAW, {"model": {"n_embd": 192, "n_head": RAW["model"]["n_head"]}})
    assert list(changes) == [("model.n_embd", RAW["model"]["n_embd"], 192)]
