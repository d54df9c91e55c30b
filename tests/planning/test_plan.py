"""The arithmetic of a plan: updates, scorings and epochs that fit into a budget."""

from hypothesis import given
from hypothesis import strategies as st
from plans import RAW, plan

from bukva.config.load import parse_params
from bukva.config.section import MOST_STEPS
from bukva.planning.budget import Budget
from bukva.planning.params import merge


def test_updates_fill_the_budget_beside_start_up_scorings_and_reserve():
    """1000 s less 5 %, 11 s of start-up and 11 scorings of 3 s leave 906 s: 1812 updates of half a second."""
    one = plan()
    assert (one.n_scorings, one.n_steps, one.eval_every, one.warmup_steps) == (10, 1812, 182, 36)
    assert one.chars == 1812 * 70
    assert one.chars_per_parameter == 126.84
    assert one.epochs == 1812 * 70 / 500_000


def test_val_is_scored_less_often_where_scoring_is_slow():
    """A fifth of 939 s holds four scorings of 40 s; one of them is before the first update."""
    assert plan(seconds_per_scoring=40.0).n_scorings == 3
    assert plan(seconds_per_scoring=300.0).n_scorings == 1  # the last one is always made


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
