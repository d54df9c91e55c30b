"""Plans for the tests of planning."""

from imports import ROOT
from ruamel.yaml import YAML

from bukva.config.load import PARAMS, parse_params
from bukva.planning.plan import Budget, Plan, Size

TEXT = (ROOT / PARAMS).read_text(encoding="utf-8")
RAW = YAML(typ="safe").load(TEXT)
ALL = parse_params(RAW, "params.yaml")
TOY = [Size(1, 32), Size(1, 64)]
BUDGET = Budget(seconds=1000, startup_seconds=11, train_chars=500_000)


def plan(
    budget=BUDGET, n_parameters=1000, seconds_per_update=0.5, chars_per_update=70, seconds_per_scoring=3.0, size=TOY[0]
):
    """The plan of such a speed within a budget."""
    return Plan(budget, size, n_parameters, 7, chars_per_update, seconds_per_update, seconds_per_scoring)
