"""The table, the warnings and the commands that a plan is shown with."""

import math
import re

from plans import RAW, plan
from rich.console import Console

from bukva.planning.budget import Budget
from bukva.planning.plan import Size
from bukva.planning.show import experiment, list_changes, progress_line, table, warnings


def test_a_measured_size_is_one_line():
    assert progress_line(plan()) == (
        "plan: 1 layers, 32 channels, 1.00k parameters | 140 chars/s, 126.8 characters per parameter"
    )


def test_the_table_marks_the_chosen_size_and_fits_a_terminal():
    plans = [plan(n_parameters=n, size=size) for n, size in ((1000, Size(3, 96)), (85_400_000, Size(12, 768)))]
    console = Console(width=80)
    with console.capture() as printed:
        console.print(table(plans, plans[0]))
    text = printed.get()
    assert re.search(r"> 3 +3 +96 +1\.00k +140 +1812 +127k +126\.8 +0\.3", text)
    assert re.search(r" 12 +24 +768 +85\.4M +140 +1812 +127k +0\.0 +0\.3", text)
    assert "…" not in text


def test_a_warning_names_the_budget_that_gives_the_smallest_size_enough_text():
    (warning,) = warnings(plan(n_parameters=10_000))
    # 20 * 10,000 / 70 updates of 0.5 s, 11 s and 11 scorings of 3 s, in 95 % of the time
    assert math.ceil((20 * 10_000 / 70 * 0.5 + 11 + 33) / 0.95) == 1551
    assert warning == (
        "Warning: even the smallest size sees 12.7 characters per parameter, fewer than 20; "
        "use a budget of 25 min 51 s or more."
    )


def test_a_warning_names_the_time_of_four_epochs_where_there_are_more():
    at_most = plan(Budget(1000, 11, 1812 * 70 // 4))
    assert at_most.epochs == 4
    assert not list(warnings(at_most))
    (warning,) = warnings(plan(Budget(1000, 11, 7000)))
    # four times 7000 characters are 400 updates: 200 s, 11 s and 33 s in 95 % of the time
    assert "reads the text 18.1 times. After 4 epochs, which take 4 min 17 s, reading it again" in warning
    named = re.findall(r"(\w+)\.(\w+)", warning.split("overfits;")[1])
    assert len(named) == 3
    for section, key in named:
        assert key in RAW[section]


def test_changes_are_lines_and_an_experiment():
    changes = [("model.n_embd", 128, 192), ("train_gpt.n_steps", 1000, 50)]
    assert list_changes(changes) == ["model.n_embd: 128 -> 192", "train_gpt.n_steps: 1000 -> 50"]
    assert experiment(changes) == "dvc exp run -S model.n_embd=192 -S train_gpt.n_steps=50"
    assert list_changes([]) == ["params.yaml already has the proposed values."]
