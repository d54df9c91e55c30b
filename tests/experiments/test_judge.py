"""bukva judge: what is kept, what is trained for it, what is refused, and what a killed loop finds again."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from bukva.cli.app import app
from bukva.compare import judge as court
from bukva.compare import ledger as book
from bukva.compare import records
from bukva.core.errors import BukvaError
from bukva.report import judge as report
from bukva.report.page.build import judged_tries

BETTER = {"model.n_head": 8}
WORSE = {"model.n_head": 2}
EFFECTS = {"base": 0.0, "better": -0.2, "worse": 0.1, "same": 0.0, "small": -0.009}


@pytest.fixture
def night(known, tmp_path, monkeypatch):
    """Results of one seed each, and a training that makes those of other seeds; `trained` has their names."""
    trained = []
    monkeypatch.setattr(court, "experiments", lambda: list(known.made))
    monkeypatch.setattr(court, "results_of", lambda names: [known.made[name] for name in names])
    monkeypatch.setattr(court, "read_results", lambda _: list(known.made.values()))
    monkeypatch.setattr(court, "_check_checkout", lambda *_: None)
    monkeypatch.setattr(court, "git", lambda *_: b"")

    def make(name, seed, changes=(), **more):
        luck = np.random.default_rng(seed).normal(0, 0.004)
        named = name if seed == 1 else f"{name}-s{seed}"
        known(named, {**dict(changes), "train_gpt.seed": seed}, effect=EFFECTS[name], seed_effect=luck, **more)

    def train(setting, seed, print_line):
        trained.append(f"{setting.name}-s{seed}")
        make(setting.name, seed, {"model.n_head": setting.result.params["model"]["n_head"]})

    monkeypatch.setattr(court, "_train", train)
    make("base", 1)
    make("better", 1, BETTER)
    make("worse", 1, WORSE)
    make.trained, make.known, make.folder = trained, known, tmp_path
    return make


def begin(level=0.1):
    return court.begin("base", "gpt", level, lambda _: None)


def judge(name):
    return court.judge(name, book.read_ledger(), lambda _: None)


def test_a_clear_gain_is_kept_after_four_seeds_and_becomes_the_baseline_with_all_its_seeds(night) -> None:
    begin()
    assert night.trained == [f"base-s{seed}" for seed in range(2, 9)]
    judged = judge("better")
    assert (judged.verdict, judged.trained.seeds) == ("keep", [1, 2, 3, 4])
    assert judged.changed == {"model.n_head": [4, 8]}
    assert judged.difference == pytest.approx(-0.2, abs=0.02)
    assert night.trained[7:] == [f"better-s{seed}" for seed in range(2, 9)]
    ledger = book.read_ledger()
    assert (ledger.baseline.name, len(ledger.baseline.bits), ledger.first.name) == ("better", 8, "base")
    assert ledger.n_trainings == 16


def test_a_try_that_is_worse_is_discarded_after_one_seed_and_the_baseline_stays(night) -> None:
    begin()
    assert judge("worse").verdict == "discard"
    assert len(night.trained) == 7
    assert book.read_ledger().baseline.name == "base"


def test_a_verdict_stays_however_often_a_try_is_judged_and_whatever_its_seed(night) -> None:
    begin()
    first = judge("worse")
    night("worse", 7, WORSE)  # the same settings with another seed, under another name
    assert judge("worse-s7") == judge("worse") == first
    assert len(book.read_ledger().tries) == 1


def test_the_ledger_grows_by_lines_and_survives_a_reset_of_the_checkout(night) -> None:
    begin()
    before = (night.folder / book.FILE).read_text(encoding="utf-8")
    judge("worse")
    after = (night.folder / book.FILE).read_text(encoding="utf-8")
    assert after.startswith(before)
    assert [json.loads(line)["event"] for line in after.splitlines()] == ["start", "try", "verdict"]
    (night.folder / book.FILE).write_text(before, encoding="utf-8")  # as git checkout does
    assert judge("better").number == 2
    assert (night.folder / book.FILE).read_text(encoding="utf-8").startswith(after)


def test_a_night_that_was_killed_between_two_seeds_goes_on_where_it_was(night, monkeypatch) -> None:
    begin()
    night("small", 1, {"model.n_head": 1})
    train = court._train

    def killed(setting, seed, print_line):
        if seed == 3:
            raise KeyboardInterrupt
        train(setting, seed, print_line)

    monkeypatch.setattr(court, "_train", killed)
    with pytest.raises(KeyboardInterrupt):
        judge("small")
    assert book.read_ledger().open.trained.name == "small"
    with pytest.raises(
        BukvaError,
        match=r"^Try number 1 in the ledger \(small\) has no verdict yet\. To finish this try: `bukva judge small`\.",
    ):
        judge("worse")
    monkeypatch.setattr(court, "_train", train)
    assert judge("small").trained.seeds[:4] == [1, 2, 3, 4]
    assert night.trained.count("small-s2") == 1
    assert len(book.read_ledger().tries) == 1


def test_a_try_that_cannot_be_trained_is_given_up_and_costs_nothing(night, monkeypatch, capsys) -> None:
    ledger = begin()
    night("small", 1, {"model.n_head": 1})
    monkeypatch.setattr(court, "_train", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        judge("small")
    with pytest.raises(
        BukvaError,
        match=r"^worse cannot be given up, because it is not waiting for a verdict\. "
        r"Run `bukva judge` to list all tries\.$",
    ):
        court.give_up("worse", book.read_ledger())
    report.print_try(court.give_up("small", book.read_ledger()), ledger, as_json=False)
    assert capsys.readouterr().out == "Discard small: this try was abandoned before it had a score.\n"
    assert book.read_ledger().next_level == ledger.next_level
    assert judge("worse").number == 2
    assert len(report.chart_rows(book.read_ledger())[0]) == 1


def test_a_night_that_was_killed_before_the_new_baseline_had_its_seeds_trains_them(night, monkeypatch) -> None:
    begin()
    with monkeypatch.context() as killed:
        killed.setattr(court, "complete_baseline", lambda *_: None)
        judge("better")
    assert len(book.read_ledger().baseline.seeds) == 4
    assert CliRunner().invoke(app, ["judge", "better"]).exit_code == 0
    assert len(book.read_ledger().baseline.seeds) == 8


@pytest.mark.parametrize("file", ["evaluate.py", "split.py"])
def test_a_try_that_changes_how_scores_are_made_is_refused_and_costs_nothing(night, file) -> None:
    begin()
    night("same", 1, BETTER, digests={file: "edited"})
    with pytest.raises(BukvaError, match=rf"^same changes {re.escape(file)}, which affects how scores are computed\."):
        judge("same")
    assert book.read_ledger().tries == ()


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"digests": {"evaluate.py": "edited"}}, "same changes evaluate.py, which affects how scores are computed"),
        ({"changes": {}}, "same differs from the baseline base only in its seed"),
        (None, "same: no experiment"),
    ],
)
def test_a_first_try_is_checked_before_the_baseline_is_trained(night, monkeypatch, change, why) -> None:
    def results_of(names):
        if unknown := set(names) - night.known.made.keys():
            raise BukvaError(f"{unknown.pop()}: no experiment")
        return [night.known.made[name] for name in names]

    monkeypatch.setattr(court, "results_of", results_of)
    if change is not None:
        night("same", 1, **{"changes": BETTER, **change})
    done = CliRunner().invoke(app, ["judge", "base", "same"])
    assert str(done.exception).startswith(why)
    assert night.trained == []
    assert not (night.folder / book.FILE).exists()


def test_a_group_of_seeds_counts_once_in_the_noise_floor_also_if_it_was_saved(night, monkeypatch) -> None:
    floors = []
    decide = court.decide
    monkeypatch.setattr(court, "decide", lambda *given: floors.append(given[2]) or decide(*given))
    begin()
    baseline = court._recorded(book.read_ledger().baseline, "gpt")
    records.merge([baseline])
    assert records.floor(baseline.family, "val").df == 7
    judge("worse")
    assert floors[0].df == 7
    assert floors[0].sd == pytest.approx(np.std(baseline.scores("val"), ddof=1), abs=1e-6)
    other = replace(baseline, key="of another experiment")
    records.merge([other])
    night("small", 1, {"model.n_head": 1})
    judge("small")
    assert floors[1].df == 7 + 7


def test_the_baseline_is_found_by_its_key_if_a_commit_gave_its_name_to_another_result(night) -> None:
    begin()
    judge("better")
    night.known.made["better"] = night.known.made["worse"]  # its first seed is gone, and the name means another setting
    night("small", 1, {"model.n_head": 1})
    before = list(night.trained)
    assert judge("small").against == "better"
    assert court._recorded(book.read_ledger().baseline, "gpt").seeds == list(range(2, 9))
    assert not [name for name in night.trained[len(before) :] if name.startswith("better")]


def test_a_try_on_another_text_is_refused(night) -> None:
    begin()
    night("same", 1, about={"text": {"val": "3" * 64, "test": "2" * 64}})
    with pytest.raises(BukvaError, match="same and base were scored on different val texts"):
        judge("same")


def test_a_try_that_changes_the_seed_only_is_refused(night) -> None:
    begin()
    with pytest.raises(
        BukvaError, match=r"^base-s2 differs from the baseline base only in its seed\. A try must change"
    ):
        judge("base-s2")


def test_the_last_report_is_about_the_winner_on_test_and_closes_the_ledger(night) -> None:
    ledger = begin()
    with pytest.raises(BukvaError, match="No try was kept"):
        court.finish(ledger)
    judge("better")
    comparison = court.finish(book.read_ledger())
    assert (comparison.split, comparison.a.name, comparison.b.name) == ("test", "base", "better")
    assert len(comparison.verdict.seeds_b) == 8
    with pytest.raises(BukvaError, match="is closed, because `bukva judge --final` has shown scores on test"):
        judge("worse")


@pytest.mark.parametrize(
    ("line", "what"),
    [("{", "Line 2 of .* is not valid"), ('{"event": "verdict"}', "Line 2 of"), ("7", "Line 2 of")],
)
def test_a_line_that_is_none_of_the_ledger_is_named(night, line, what) -> None:
    begin()
    for file in (book.FILE, book.COPY):
        with (night.folder / file).open("a", encoding="utf-8") as opened:
            opened.write(f"{line}\n")
    with pytest.raises(BukvaError, match=what):
        book.read_ledger()


def test_two_nights_are_not_mixed(night) -> None:
    begin()
    (night.folder / book.FILE).write_text('{"event": "start", "level": 0.2}\n', encoding="utf-8")
    with pytest.raises(BukvaError, match="have different lines, so they belong to two different ledgers"):
        book.read_ledger()


def test_a_level_that_is_no_share_is_refused(night) -> None:
    with pytest.raises(BukvaError, match=r"^`--level` must be between 0 and 1, for example 0\.1; got 10\.$"):
        begin(10)


def test_val_may_flatter_the_winner_more_the_more_often_it_decided(night) -> None:
    ledger = begin()
    assert court.selection_bias(ledger) == 0
    judge("worse")
    night("small", 1, {"model.n_head": 1})
    judge("small")
    assert 0 < court.selection_bias(book.read_ledger()) < 0.01


def test_the_verdict_is_a_sentence_with_the_difference_and_its_interval(night, capsys) -> None:
    begin()
    for name in ("worse", "better"):
        report.print_try(judge(name), book.read_ledger(), as_json=False)
    lines = capsys.readouterr().out.splitlines()
    number = r"[+-]0\.\d{3}"
    interval = f"95 % interval {number} to {number}"
    assert re.fullmatch(
        rf"Discard worse: no gain that would justify more seeds \({number} bits, {interval}\)\.", lines[0]
    )
    assert lines[1] == "Tries so far: 1, kept: 0. The significance level of the next try is 0.0055."
    assert re.fullmatch(rf"Keep better: better by 0\.\d{{3}} bits, {interval}\. better is now the baseline\.", lines[2])
    report.print_try(judge("better"), book.read_ledger(), as_json=True)
    assert json.loads(capsys.readouterr().out)["verdict"] == "keep"


def test_the_table_of_a_night_has_its_tries_and_says_what_they_cost(night, capsys, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "150")
    begin()
    judge("worse")
    judge("better")
    report.print_ledger(book.read_ledger(), as_json=False)
    shown = capsys.readouterr().out.replace("│", " ")
    assert re.search(r"1\s+worse\s+model\.n_head=2\s+1\s+\+0\.\d{3}.*discard", shown)
    assert re.search(r"2\s+better\s+model\.n_head=8\s+4\s+-0\.\d{3}.*keep", shown)
    assert "Tries: 2, kept: 1, trainings: 17 (reports/judge.jsonl). The baseline is now better with" in shown
    report.print_ledger(book.read_ledger(), as_json=True)
    assert [each["verdict"] for each in json.loads(capsys.readouterr().out)["tries"]] == ["discard", "keep"]


def test_the_chart_has_each_try_beside_the_baseline_of_its_time(night) -> None:
    begin()
    first = np.mean(book.read_ledger().first.bits)
    judge("better")
    judge("worse")
    rows, steps = report.chart_rows(book.read_ledger())
    assert rows["verdict"].tolist() == ["keep", "discard"]
    assert rows["bits"][0] == pytest.approx(first - 0.2, abs=0.02)
    ledger = book.read_ledger()
    assert rows["bits"].tolist() == pytest.approx([np.mean(each.trained.bits) for each in ledger.tries])
    assert steps["bits"].iloc[-1] == pytest.approx(np.mean(ledger.baseline.bits))
    assert (rows["low"] < rows["bits"]).all()
    assert steps["bits"].tolist() == pytest.approx([first, first - 0.2, first - 0.2], abs=0.02)
    assert report.chart(book.read_ledger())["layer"]


def test_the_page_of_experiments_has_the_tries_as_soon_as_one_is_decided(night) -> None:
    assert judged_tries() is None
    begin()
    assert judged_tries() is None
    judge("better")
    assert judged_tries()["sentence"].startswith("Tries: 1, kept: 1, trainings: 16 (reports/judge.jsonl).")


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (["a", "b", "c"], "judge: got 3 names. Give the name of a try, or the names of a baseline and a try."),
        (["better"], "No ledger (list of tries) exists yet. To begin a ledger: `bukva judge BASELINE better`."),
        ([], "No ledger (list of tries) exists yet. To begin a ledger: `bukva judge BASELINE TRY`."),
        (["--final"], "No ledger (list of tries) exists yet. To begin a ledger: `bukva judge BASELINE TRY`."),
        (["--give-up"], "judge --give-up: the name of the try is missing. To list the tries: `bukva judge`."),
        (
            ["better", "--give-up"],
            "No ledger (list of tries) exists yet. To begin a ledger: `bukva judge BASELINE TRY`.",
        ),
    ],
)
def test_a_command_without_a_ledger_says_how_to_begin_one(night, arguments, what) -> None:
    done = CliRunner().invoke(app, ["judge", *arguments])
    assert (done.exit_code, str(done.exception)) == (1, what)
    assert not (night.folder / book.FILE).exists()


def test_the_first_name_of_two_is_the_baseline_of_the_ledger(night) -> None:
    begin()
    assert CliRunner().invoke(app, ["judge", "base", "worse"]).exit_code == 3
    assert CliRunner().invoke(app, ["judge", "better"]).exit_code == 0
    done = CliRunner().invoke(app, ["judge", "base", "worse"])
    assert str(done.exception) == (
        "judge: base is not the baseline of the ledger. The baseline is better. Give only the name of the try: "
        "`bukva judge worse`."
    )


@pytest.mark.slow
def test_the_command_trains_missing_seeds_by_dvc_and_exits_with_the_verdict(project, bukva, monkeypatch) -> None:
    monkeypatch.setattr(court, "LOOKS", (1, 2, 4))
    project.run("dvc", "exp", "run", "--temp", "-n", "HEAD-s1340", "-S", "model.n_head=1")  # the name is taken
    done = bukva("judge", "HEAD", "two-heads")
    assert done.exit_code in (0, 3, 4), done.output
    log = (project.folder / court.LOG).read_text(encoding="utf-8")
    assert "Running stage 'train-gpt'" in log
    assert "Running stage 'split'" not in log
    names = project.run("dvc", "exp", "list", "--name-only").split()
    assert {"HEAD-s1339", "HEAD-s1340", "HEAD-s1340-2"} <= set(names)
    assert "HEAD-s1338" not in names  # experiment s1338 is this training
    shown = bukva("judge", "--json")
    (judged,) = json.loads(shown.stdout)["tries"]
    assert {0: "keep", 3: "discard", 4: "cannot tell"}[done.exit_code] == judged["verdict"]
    assert bukva("judge", "two-heads").exit_code == done.exit_code
    assert "two-heads" in bukva("judge").stdout
    assert project.run("git", "status", "--porcelain").split() == ["??", "reports/judge.jsonl"]


@pytest.mark.slow
def test_a_training_needs_the_code_of_its_try(project, bukva) -> None:
    project.run("dvc", "exp", "run", "--temp", "-n", "seven", "-S", "model.n_layer=7")
    (project.folder / "code" / "one.py").write_text("edited", encoding="utf-8")
    done = bukva("judge", "HEAD", "seven")
    assert re.match(
        r"HEAD must be trained with seed 1339, but the checkout no longer matches this experiment: code has changed",
        str(done.exception),
    )


@pytest.mark.slow
def test_seeds_are_found_after_a_commit_whatever_has_their_names(project, bukva, monkeypatch) -> None:
    monkeypatch.setattr(court, "LOOKS", (1, 2, 4))
    project.run("dvc", "exp", "run", "--temp", "-n", "try", "-S", "model.n_layer=9")
    assert bukva("judge", "HEAD", "try").exit_code == 0
    start = court.git("rev-parse", "HEAD").decode().strip()
    project.run("dvc", "exp", "remove", "try-s1340")
    project.commit("Keep the try")
    # the next loop uses the name again, for another change
    project.run("dvc", "exp", "run", "--temp", "-n", "try", "-S", "model.n_layer=8")
    ledger = book.read_ledger()
    assert court._recorded(ledger.first, "gpt").seeds[:4] == [1337, 1338, 1339, 1340]  # 1337 is the commit before HEAD
    with monkeypatch.context() as more:
        more.setattr(court, "LOOKS", (1, 2, 4, 5))
        court.complete_baseline(ledger, print)
    made = {(each.name, each.baseline == start) for each in court.experiments() if each.name.startswith("try")}
    old, new = {"try", "try-s1338", "try-s1339"}, {"try", "try-s1340", "try-s1341"}
    assert made == {(name, True) for name in old} | {(name, False) for name in new}
    assert book.read_ledger().baseline.seeds == [1337, 1338, 1339, 1340, 1341]
    assert bukva("judge", "try").exit_code in (3, 4)  # the new change is a new try
    assert [each.trained.name for each in book.read_ledger().tries] == ["try", "try"]
