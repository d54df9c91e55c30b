"""A time budget becomes a size, a batch and steps that fit it, and lines of params.yaml."""

import dataclasses
import math
import re
import subprocess
from itertools import islice

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from imports import ROOT
from rich.console import Console
from ruamel.yaml import YAML
from typer.testing import CliRunner

from bukva.__main__ import app
from bukva.base.errors import BukvaError
from bukva.config.load import PARAMS, parse_params, read_params
from bukva.planning import budget as planning
from bukva.planning.budget import Budget, Plan, Size, Speed
from bukva.tokenizers.char import CharTokenizer

TEXT = (ROOT / PARAMS).read_text(encoding="utf-8")
RAW = YAML(typ="safe").load(TEXT)
ALL = parse_params(RAW, "params.yaml")
TOY = [Size(1, 32), Size(1, 64)]
BUDGET = Budget(seconds=1000, startup_seconds=11, train_chars=500_000)


def speed(n_parameters=1000, seconds_per_update=0.5, chars_per_update=70, seconds_per_scoring=3.0, size=TOY[0]):
    return Speed(size, n_parameters, 7, chars_per_update, seconds_per_update, seconds_per_scoring)


def plan(budget=BUDGET, **measured):
    return Plan.of(speed(**measured), budget)


# ---- the budget


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("10min", 600), ("1h30min", 5400), ("2h", 7200), ("1h5s", 3605), ("1.5h", 5400), ("720h", 2_592_000)],
)
def test_a_budget_is_a_number_with_its_unit(text, seconds):
    assert planning.budget_seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "10", "min", "10m", "10 min", "30min1h", "-5min", "1e3s", ".5h", "10min,", "١s"])
def test_what_has_no_unit_or_an_unknown_one_is_refused_in_a_sentence(text):
    with pytest.raises(BukvaError) as error:
        planning.budget_seconds(text)
    assert str(error.value) == (
        f"BUDGET {text!r}: not a time with its unit (h, min, s); 90s, 10min, 1h30min or 2h would do."
    )


@pytest.mark.parametrize("text", ["0s", "0h0min", "0.0s", "720h1s", "99999999999h", "9" * 400 + "h"])
def test_no_time_and_more_than_a_month_are_refused_in_a_sentence(text):
    with pytest.raises(BukvaError, match=r"not more than 0 and at most 30 days; 90s, .* would do\.$"):
        planning.budget_seconds(text)


# ---- what a size comes to


def test_updates_fill_what_start_up_scorings_and_the_reserve_leave():
    """1000 s less 5 %, 11 s of start-up and 11 scorings of 3 s leave 906 s: 1812 updates of half a second."""
    one = plan()
    assert (one.n_scorings, one.n_steps, one.eval_every, one.warmup_steps) == (10, 1812, 182, 36)
    assert one.chars == 1812 * 70
    assert one.chars_per_parameter == 126.84
    assert one.epochs == 1812 * 70 / 500_000


def test_where_scoring_is_slow_there_is_less_of_it():
    """A fifth of 939 s holds four scorings of 40 s, the one before the first update among them."""
    assert plan(seconds_per_scoring=40.0).n_scorings == 3
    assert plan(seconds_per_scoring=300.0).n_scorings == 1  # the last one is always made


@given(
    seconds=st.floats(1, 1e6),
    startup=st.floats(0, 100),
    update=st.floats(1e-4, 100),
    scoring=st.floats(1e-3, 1e3),
)
def test_updates_and_scorings_never_take_longer_than_the_budget(seconds, startup, update, scoring):
    one = plan(Budget(seconds, startup, 1000), seconds_per_update=update, seconds_per_scoring=scoring)
    made = {0, *range(0, one.n_steps + 1, one.eval_every), one.n_steps}  # as the loop scores
    if one.n_steps:
        assert startup + one.n_steps * update + len(made) * scoring <= 0.95 * seconds * (1 + 1e-9)
        parse_params(planning.changed(RAW, one.values()), "params.yaml")
    assert one.seconds_for(one.n_steps + 1) > seconds * (1 - 1e-9)


# ---- the choice


def test_the_largest_size_that_sees_twenty_characters_per_parameter_is_chosen():
    small, middle, large = (plan(n_parameters=n) for n in (1000, 6342, 6343))  # 1812 updates of 70 are 20 times 6342
    assert planning.propose([small, middle, large]) is middle
    assert planning.propose([small, middle]) is middle


def test_the_smallest_is_chosen_when_none_sees_enough_and_that_is_told():
    small, large = plan(n_parameters=10_000), plan(n_parameters=30_000)
    assert planning.propose([small, large]) is small
    (warning,) = planning.warnings(small)
    # 20 * 10,000 / 70 updates of 0.5 s, 11 s and 11 scorings of 3 s, in 95 % of the time
    assert math.ceil((20 * 10_000 / 70 * 0.5 + 11 + 33) / 0.95) == 1551
    assert warning == (
        "Warning: even the smallest size sees 12.7 characters per parameter, fewer than 20; "
        "a budget of 25 min 51 s would do."
    )


def test_a_budget_that_start_up_eats_is_refused_and_a_sufficient_one_named():
    eaten = plan(Budget(seconds=13, startup_seconds=11, train_chars=500))
    with pytest.raises(BukvaError, match=r"^BUDGET 13 s: .* time for an update; 2 min 04 s or more would") as error:
        planning.propose([eaten])
    # 200 updates of 0.5 s, 11 s and two scorings of 3 s, in 95 % of the time
    assert math.ceil((200 * 0.5 + 11 + 2 * 3) / 0.95) == 2 * 60 + 4
    assert "\n" not in str(error.value)


def test_more_than_four_epochs_are_warned_of_and_their_time_told():
    at_most = plan(Budget(1000, 11, 1812 * 70 // 4))
    assert at_most.epochs == 4
    assert not list(planning.warnings(at_most))
    (warning,) = planning.warnings(plan(Budget(1000, 11, 7000)))
    # four times 7000 characters are 400 updates: 200 s, 11 s and 33 s in 95 % of the time
    assert warning.startswith("Warning: 18.1 epochs; after 4, which take 4 min 17 s, reading the text again")
    for key in re.findall(r"(\w+)\.(\w+)", warning.split("overfits:")[1]):
        assert key[1] in RAW[key[0]]


# ---- the ladder


def climbed(seconds_per_parameter, params=ALL):
    """The plans of a machine of this pace, and the sizes and batches that it was asked for."""
    asked = []

    def measure(size, batch_size):
        asked.append((size, batch_size))
        n = size.n_layer * size.n_embd**2 * 12
        return Speed(size, n, batch_size, batch_size * 64, seconds_per_parameter * n * batch_size, 1.0)

    return list(planning.climb(measure, params, BUDGET)), asked


def test_sizes_are_measured_up_to_the_first_that_sees_too_little():
    plans, asked = climbed(seconds_per_parameter=2e-8)
    assert [one.is_enough for one in plans] == [True] * (len(plans) - 1) + [False]
    assert [one.speed.size for one in plans] == planning.LADDER[: len(plans)] == [size for size, _ in asked]
    assert planning.propose(plans) is plans[-2]


def test_a_machine_that_is_fast_enough_gets_the_largest_and_batches_double_with_the_channels():
    plans, asked = climbed(seconds_per_parameter=1e-13)
    assert planning.propose(plans).speed.size == planning.LADDER[-1]
    own = ALL.train_gpt.batch_size
    assert [batch // own for _, batch in asked] == [1, 1, 1, 1, 2, 2, 4, 4]
    for one in plans:
        parse_params(planning.changed(RAW, one.values()), "params.yaml")


def test_a_batch_is_halved_rather_than_make_few_updates_but_stays_divisible():
    recipe = ALL.train_gpt.model_copy(update={"batch_size": 48, "micro_batches": 3, "processes": 2})
    _, asked = climbed(seconds_per_parameter=1.0, params=ALL.model_copy(update={"train_gpt": recipe}))
    assert asked == [(planning.LADDER[0], batch) for batch in (48, 24, 12, 6)]


def test_a_size_that_memory_does_not_hold_ends_the_ladder():
    def measure(size, batch_size):
        if size == planning.LADDER[1]:
            raise torch.OutOfMemoryError
        return dataclasses.replace(speed(), size=size)

    plans = list(planning.climb(measure, ALL, BUDGET))
    assert [one.speed.size for one in plans] == planning.LADDER[:1]
    with pytest.raises(BukvaError, match=r"smaller train_gpt\.batch_size would do"):
        planning.propose([])


def test_every_rung_is_larger_than_the_one_before():
    sizes = [(size.n_layer, size.n_head, size.n_embd) for size in planning.LADDER]
    assert sizes == sorted(sizes)
    assert all(n_embd == 32 * n_head for _, n_head, n_embd in sizes)


# ---- params.yaml


def test_writing_changes_the_lines_of_these_values_and_no_other_byte(tmp_path):
    file = tmp_path / PARAMS
    file.write_text(TEXT, encoding="utf-8")
    values = plan().values()
    planning.write(values, file)
    wanted = TEXT
    for section, keys in values.items():
        head, found, rest = wanted.partition(f"\n{section}:\n")
        for key, value in keys.items():
            rest = re.sub(rf"(?m)^  {key}: .*$", f"  {key}: {value}", rest, count=1)
        wanted = head + found + rest
    assert file.read_text(encoding="utf-8") == wanted != TEXT
    assert read_params(file).model_dump() == planning.changed(RAW, values)


def test_writing_what_is_there_leaves_the_file_alone(tmp_path):
    file = tmp_path / PARAMS
    odd = TEXT.replace("  n_head: 4", "  n_head:   0x4  # four").replace("\n", "\r\n").encode()  # not as DVC writes it
    file.write_bytes(odd)
    planning.write({"model": {"n_head": 4}}, file)
    assert file.read_bytes() == odd


def test_what_would_not_be_valid_is_not_written(tmp_path):
    file = tmp_path / PARAMS
    file.write_text(TEXT, encoding="utf-8")
    with pytest.raises(BukvaError, match="warmup_steps: 20 is more than n_steps 10"):
        planning.write({"train_gpt": {"n_steps": 10, "eval_every": 10, "warmup_steps": 20}}, file)
    assert file.read_text(encoding="utf-8") == TEXT


def test_changes_are_lines_and_an_experiment():
    changes = list(planning.differences(RAW, {"model": {"n_embd": 192, "n_head": RAW["model"]["n_head"]}}))
    assert planning.changes_told(changes) == [f"model.n_embd: {RAW['model']['n_embd']} -> 192"]
    assert planning.experiment(changes) == "dvc exp run -S model.n_embd=192"
    assert planning.changes_told([]) == ["params.yaml has the proposed numbers already."]


def test_the_table_marks_the_chosen_size_and_fits_a_terminal():
    plans = [plan(n_parameters=n, size=size) for n, size in ((1000, Size(3, 96)), (85_400_000, Size(12, 768)))]
    console = Console(width=80)
    with console.capture() as printed:
        console.print(planning.table(plans, plans[0]))
    text = printed.get()
    assert re.search(r"> 3 +3 +96 +1\.00k +140 +1812 +127k +126\.8 +0\.3", text)
    assert re.search(r" 12 +24 +768 +85\.4M +140 +1812 +127k +0\.0 +0\.3", text)
    assert "…" not in text


# ---- the command


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project with a tiny text that is split, one thread, and two toy sizes that are measured for a moment."""
    text = (
        TEXT.replace("  threads: 0", "  threads: 1")
        .replace("  block_size: 64", "  block_size: 11")
        .replace("  processes: 2", "  processes: 1")
    )
    (tmp_path / PARAMS).write_text(text, encoding="utf-8")
    (tmp_path / "dvc.yaml").write_bytes((ROOT / "dvc.yaml").read_bytes())
    paths = YAML(typ="safe").load((ROOT / "dvc.yaml").read_text(encoding="utf-8"))["vars"][0]["path"]
    CharTokenizer.of(["абвгдеё"]).save(tmp_path / paths["vocab"])
    (tmp_path / paths["split"]).mkdir(parents=True)
    for part, n in (("train", 307), ("val", 101)):
        np.save(tmp_path / paths["split"] / f"{part}.npy", (np.arange(n) % 7).astype(np.uint8))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(planning, "LADDER", TOY)
    monkeypatch.setattr(planning, "LEAST_SECONDS", 1e-9)
    return tmp_path


def test_a_plan_is_proposed_and_written_on_request(project):
    before = (project / PARAMS).read_text(encoding="utf-8")
    done = CliRunner().invoke(app, ["plan", "1h"])
    assert done.exit_code == 0, done.output
    assert done.stderr.startswith("plan: 1 layers, 32 channels, ")
    assert re.search(r"\nTry them: dvc exp run -S model.n_layer=1 .*-S train_gpt.n_steps=\d+", done.stdout)
    assert "make plan BUDGET=1h WRITE=1" in done.stdout
    assert "train_gpt.patience" in done.stdout  # 307 characters in an hour
    assert (project / PARAMS).read_text(encoding="utf-8") == before

    done = CliRunner().invoke(app, ["plan", "--write", "1h"])
    assert done.exit_code == 0, done.output
    written = read_params(project / PARAMS)
    assert written.model.n_layer == 1
    assert f"train_gpt.n_steps: {ALL.train_gpt.n_steps} -> {written.train_gpt.n_steps}\n" in done.stdout
    assert re.sub(r": .*", "", (project / PARAMS).read_text(encoding="utf-8")) == re.sub(r": .*", "", before)


def test_the_measured_shape_and_batch_are_those_asked_for(project):
    bench = planning.Bench.of(YAML(typ="safe").load((project / PARAMS).read_text(encoding="utf-8")))
    one = bench.speed(Size(2, 32), 5)
    config, _ = bench._training(Size(2, 32), 5)
    assert one.n_parameters == config.n_parameters
    assert (config.n_layer, config.n_head, config.n_embd, config.vocab_size) == (2, 1, 32, 7)
    assert (one.batch_size, one.chars_per_update) == (5, 5 * 11)
    assert min(one.seconds_per_update, one.seconds_per_scoring) > 0


def test_a_long_val_split_is_sampled_and_its_whole_is_charged(project, monkeypatch):
    bench = planning.Bench.of(YAML(typ="safe").load((project / PARAMS).read_text(encoding="utf-8")))
    monkeypatch.setattr(planning, "SCORED_CHARS", 50)
    monkeypatch.setattr(planning.Bench, "_seconds", lambda _, updates, n: float(len(list(islice(updates, n)))))
    assert bench.speed(TOY[0], 3).seconds_per_scoring == 1.0 / 50 * 100


def test_a_text_that_is_not_split_yet_is_one_sentence(project):
    for file in (project / "data" / "split").iterdir():
        file.unlink()
    done = CliRunner().invoke(app, ["plan", "1h"])
    assert isinstance(done.exception, BukvaError)
    assert str(done.exception) == "data/split: the text is not split yet; `dvc repro split` would do."


def test_make_passes_the_budget_and_writes_only_when_asked():
    def command(*arguments):
        made = subprocess.run(
            ["make", "-n", "--no-print-directory", "-o", ".venv/made", "plan", *arguments],
            cwd=ROOT,
            capture_output=True,
            text=True,
        )
        return made.stdout.strip()

    assert command("BUDGET=10min") == "python -m bukva plan  -- '10min'"
    assert command("BUDGET=-1h", "WRITE=0") == "python -m bukva plan  -- '-1h'"
    assert command("BUDGET=2h", "WRITE=1") == "python -m bukva plan --write -- '2h'"
