"""bukva judge: what is kept, what is trained for it, what is refused, and what a killed loop finds again."""

import json
import re
from dataclasses import asdict, replace

import numpy as np
import pytest
from filelock import FileLock
from typer.testing import CliRunner

from bukva.cli.app import app
from bukva.compare import judge as court
from bukva.compare import records
from bukva.compare.statistics import judging
from bukva.compare.statistics.settings import expected_luck
from bukva.core.errors import BukvaError
from bukva.project.revisions import Revision, experiment_ref
from bukva.report import judge as report
from bukva.report.page import judged_tries
from bukva.sweep import trainer
from bukva.sweep.trainer import SeedTrainer
from bukva.tracking import record
from tests.compare.made import NUMERICS

BETTER, WORSE, SMALL = {"model.n_head": 8}, {"model.n_head": 2}, {"model.n_head": 1}
EFFECTS = {"base": 0.0, "better": -0.2, "best": -0.3, "worse": 0.1, "same": 0.0, "small": -0.009, "maybe": -0.0065}


@pytest.fixture
def night(known, tmp_path, monkeypatch):
    """Results of one seed each, and a trainer that makes those of other seeds; `trained` has their names."""

    def results_of(names):
        if unknown := set(names) - known.made.keys():
            raise BukvaError(f"{unknown.pop()}: no experiment")
        return [known.made[name] for name in names]

    def make(name, seed, changes=(), **more):
        luck = np.random.default_rng(seed).normal(0, 0.004)
        named = name if seed == 1 else f"{name}-s{seed}"
        known(named, {**dict(changes), "train_gpt.seed": seed}, effect=EFFECTS[name], seed_effect=luck, **more)
        make.changes.setdefault(name, changes)

    def train(_, trials, params, commit):
        for seed, (name, assignments) in trials.items():
            assert assignments == [f"train_gpt.seed={seed}"]
            make.before(name)
            make.trained.append(name)
            make(setting := name.partition("-s")[0], seed, make.changes[setting])
            make.after(name)
            yield [seed]

    for name, replacement in {
        "experiments": lambda: list(known.made),
        "results_of": results_of,
        "read_results": lambda _: list(known.made.values()),
        "digests": lambda paths, _: paths,
        "git": lambda *_: b"",
        "resolve": lambda name: Revision(name, ""),
        "free_name": lambda name: name,
    }.items():
        monkeypatch.setattr(court, name, replacement)
    monkeypatch.setattr(SeedTrainer, "train", train)
    make.made, make.folder, make.trained, make.changes = known.made, tmp_path, [], {}
    make.before = make.after = lambda _name: None  # what happens before and after each training
    make("base", 1)
    make("better", 1, BETTER)
    make("worse", 1, WORSE)
    return make


@pytest.fixture
def begun(night):
    """A night whose baseline has its seeds."""
    court.begin("base", "gpt", 0.1, "base", SeedTrainer("judge", 1, ""))
    return night


def judge(name):
    return court.judge(name, SeedTrainer("judge", 1, ""))


def command(*arguments):
    return CliRunner().invoke(app, ["judge", *arguments])


def seeds_of(name, seeds):
    return [f"{name}-s{seed}" for seed in seeds]


def test_a_clear_gain_is_kept_after_eight_seeds_and_becomes_the_baseline(begun) -> None:
    assert begun.trained == seeds_of("base", range(2, 9))
    judged = judge("better")
    assert (judged.verdict, judged.trained.seeds) == ("keep", list(range(1, 9)))
    assert judged.changed == {"model.n_head": [4, 8]}
    assert judged.difference == pytest.approx(-0.2, abs=0.02)
    assert begun.trained[7:] == seeds_of("better", range(2, 9))
    ledger = court.read_ledger()
    assert (ledger.baseline.name, len(ledger.baseline.bits), ledger.first.name) == ("better", 8, "base")
    assert ledger.n_trainings == 16


def test_a_verdict_stays_however_often_a_try_is_judged_and_whatever_its_seed(begun) -> None:
    begun("worse", 7, WORSE)  # the same settings with another seed, under another name
    first = judge("worse")
    assert (first.verdict, first.trained.seeds, len(begun.trained)) == ("discard", [1], 7)  # after its first seed
    assert court.read_ledger().baseline.name == "base"
    assert judge("worse-s7") == judge("worse") == first
    assert len(court.read_ledger().tries) == 1


def test_the_ledger_grows_by_lines_and_survives_a_reset_of_the_checkout(begun) -> None:
    file = begun.folder / court.FILE
    before = file.read_text(encoding="utf-8")
    judge("worse")
    after = file.read_text(encoding="utf-8")
    assert after.startswith(before)
    assert [json.loads(line)["event"] for line in after.splitlines()] == ["start", "try", "verdict"]
    file.write_text(before, encoding="utf-8")  # as git checkout does
    assert judge("better").number == 2
    assert file.read_text(encoding="utf-8").startswith(after)


def test_a_night_that_was_killed_between_two_seeds_goes_on_where_it_was(begun, monkeypatch) -> None:
    begun("small", 1, SMALL)

    def killed(name):
        if name == "small-s3":
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(begun, "before", killed)
        with pytest.raises(KeyboardInterrupt):
            judge("small")
    assert [each.trained.name for each in court.read_ledger().open] == ["small"]
    assert judge("worse").verdict == "discard"
    with pytest.raises(BukvaError, match=r"^Try number 1 in the ledger \(small\) has no verdict yet\. To finish"):
        court.finish()
    assert judge("small").trained.seeds[:4] == [1, 2, 3, 4]
    assert begun.trained.count("small-s2") == 1
    assert [each.trained.name for each in court.read_ledger().tries] == ["worse", "small"]


def test_a_try_must_beat_the_baseline_that_was_kept_while_it_was_trained(begun, capsys) -> None:
    begun("best", 1, {"model.n_head": 16})

    def meanwhile(name):
        if name == "better-s7":
            levels.append(court.read_ledger().next_level)
            assert judge("best").verdict == "keep"
            levels.append(court.read_ledger().next_level)
            assert [str(command("better").exception)] == [
                "Another `bukva judge` is judging better. Wait until it has ended, and run the command again."
            ]

    levels, begun.after = [], meanwhile
    judged = judge("better")
    ledger = court.read_ledger()
    assert [(each.number, each.trained.name, each.against) for each in ledger.tries] == [
        (2, "best", "base"), (1, "better", "best"),
    ]  # fmt: skip
    assert (judged.verdict, judged.difference) == ("discard", pytest.approx(0.1, abs=0.02))
    assert levels == pytest.approx([ledger.tries[0].level, judged.level], rel=0.01)
    assert levels[0] < levels[1]
    assert ledger.baseline.name == "best"
    printed = capsys.readouterr().out
    assert "  The baseline is now best, which was kept in the meantime." in printed
    assert "  better began from base. If its change may also improve best, make it there, and judge that" in printed


def test_a_try_that_another_process_gives_up_while_it_is_trained_gets_no_second_verdict(begun) -> None:
    begun.after = lambda _: court.give_up("better")
    with pytest.raises(BukvaError, match=r"^better was given up while it was trained"):
        judge("better")
    assert [(each.verdict, [*each.trained.seeds]) for each in court.read_ledger().tries] == [("discard", [])]


def test_tries_that_cannot_be_trained_are_given_up_and_only_trainings_count(begun, monkeypatch) -> None:
    """Eight of them would leave the floor of the baseline, with its 7 degrees of freedom, with -1."""
    before = court.read_ledger()
    known, names = court._known_floor(before, "family"), [f"broken{number}" for number in range(8)]
    with monkeypatch.context() as patch:
        patch.setattr(begun, "before", lambda _: 1 / 0)
        for number, name in enumerate(names, start=16):
            monkeypatch.setitem(EFFECTS, name, -0.2)
            begun(name, 1, {"model.n_head": number})
            with pytest.raises(ZeroDivisionError):
                judge(name)
            said = "worse cannot be given up, because it is not waiting for a verdict. Run"
            assert str(command("worse", "--give-up").exception).startswith(said)
            done = command(name, "--give-up")
            said = f"Discard {name}: this try was given up before it had a verdict.\n"
            assert (done.exit_code, done.stdout) == (3, said)
    ledger = court.read_ledger()
    assert (len(ledger.decided), ledger.n_trainings, court.selection_bias(ledger)) == (8, 8, 0)
    assert court._known_floor(ledger, "family") == known
    assert known.df == 7
    assert ledger.next_level < before.next_level  # the first scores may be a reason to give up a try
    assert judged_tries() is None
    assert [each["verdict"] for each in json.loads(command("--json").stdout)["tries"]] == ["discard"] * 8
    assert (judge("worse").number, judge("better").number) == (9, 10)
    assert len(report.chart_rows(court.read_ledger())[0]) == 2
    errors = [each.text_se for each in court.read_ledger().tries[8:]]
    assert court.selection_bias(court.read_ledger()) == pytest.approx(expected_luck(2, np.mean(errors) / 2**0.5))


@pytest.mark.parametrize("has_begun", [True, False])
@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"digests": {"evaluate.py": "edited"}}, "same changes evaluate.py, which affects how scores are computed."),
        ({"digests": {"src/bukva/scoring": "edited"}}, "same changes src/bukva/scoring, which affects how scores are"),
        ({"digests": {"split.py": "edited"}}, "same changes split.py, which affects how scores are computed."),
        ({"about": {"text": {"val": "3" * 64, "test": "2" * 64}}}, "same and base were scored on different val texts"),
        ({"changes": {}}, "same differs from the baseline base only in its seed. A try must change parameters or code"),
        (None, "same: no experiment"),
    ],
)
def test_a_try_that_cannot_be_judged_is_refused_before_any_training_and_costs_nothing(
    night, request, more, why, has_begun
) -> None:
    if has_begun:
        request.getfixturevalue("begun")
    if more is not None:
        night("same", 1, **{"changes": BETTER, **more})
    before, ledger = list(night.trained), court.read_ledger()
    assert str(command("base", "same").exception).startswith(why)
    assert (night.trained, court.read_ledger()) == (before, ledger)


def test_a_group_of_seeds_counts_once_in_the_noise_floor_also_if_it_was_saved(begun, monkeypatch) -> None:
    floors = []
    look = court.look
    monkeypatch.setattr(court, "look", lambda *given: floors.append(given[3]) or look(*given))
    ledger = court.read_ledger()
    baseline = court._setting("base", "gpt", ledger.baseline.key)
    records.merge([baseline])
    assert records.floor(baseline.family, "val").df == 7
    judge("worse")
    assert (floors[0].df, floors[0].sd) == (7, pytest.approx(np.std(baseline.scores("val"), ddof=1), abs=1e-6))
    records.merge([replace(baseline, key="of another experiment")])
    begun("small", 1, SMALL)
    judge("small")
    assert floors[1].df == 7 + 7


def test_the_baseline_is_found_by_its_key_if_a_commit_gave_its_name_to_another_result(begun) -> None:
    judge("better")
    begun.made["better"] = begun.made["worse"]  # its first seed is gone, and the name means another setting
    begun("small", 1, SMALL)
    before = len(begun.trained)
    assert judge("small").against == "better"
    assert court._setting("better", "gpt", court.read_ledger().baseline.key).seeds == list(range(2, 9))
    assert not [name for name in begun.trained[before:] if name.startswith("better")]


def test_a_seed_that_was_trained_with_other_parameters_is_noticed_before_the_next_training(night) -> None:
    night.changes["base"] = BETTER
    said = str(command("base", "better").exception)
    assert said.startswith("Seed 2 of base was trained with other code, data or parameters than base")
    assert night.trained == ["base-s2"]


def test_the_last_report_is_about_the_winner_on_test_and_closes_the_ledger(begun) -> None:
    assert str(command("--final").exception).startswith("No try was kept")
    judge("better")
    (comparison,) = json.loads(command("--final", "--json").stdout)
    assert (comparison["split"], comparison["a"]["name"], comparison["b"]["name"]) == ("test", "base", "better")
    assert comparison["seeds_b"] == list(range(1, 9))
    assert records.looks_at_test("2" * 64) == 1
    with pytest.raises(BukvaError, match="is closed, because `bukva judge --final` has shown scores on test"):
        judge("worse")


@pytest.mark.parametrize(
    ("files", "mode", "line", "why"),
    [((court.FILE, court.COPY), "a", line, r"^Line 2 of reports/judge\.jsonl is not valid\.")
     for line in ("{", '{"event": "verdict"}', '{"event": "other"}', "7")]
    + [((court.FILE,), "w", '{"event": "start"}', "have different lines, so they belong to two different ledgers")],
)  # fmt: skip
def test_a_line_that_is_none_of_the_ledger_is_named_and_two_nights_are_not_mixed(begun, files, mode, line, why) -> None:
    for file in files:
        with (begun.folder / file).open(mode, encoding="utf-8") as opened:
            opened.write(f"{line}\n")
    with pytest.raises(BukvaError, match=why):
        court.read_ledger()


def test_the_exit_status_is_the_verdict_and_the_sentence_has_the_difference_and_its_interval(
    begun, monkeypatch
) -> None:
    monkeypatch.setattr(court.Setting, "seconds", property(lambda self: 67.0 if self.name == "worse" else 59.0))
    number = r"[+-]0\.\d{3}"
    interval = f"95 % interval {number} to {number}"
    done = command("worse")
    _, longer, _, sentence, said = done.stdout.splitlines()
    assert longer == "  Median training time: 1 min 07 s, baseline 59 s"
    assert re.fullmatch(
        rf"Discard worse: no gain that would justify more seeds \({number} bits, {interval}\)\.", sentence
    )
    assert (done.exit_code, said) == (3, "Tries so far: 1, kept: 0. The significance level of the next try is 0.0055.")
    begun("maybe", 1, SMALL)
    done = command("maybe", "--json")
    assert (done.exit_code, json.loads(done.stdout)["verdict"]) == (4, "cannot tell")
    assert done.stderr.startswith("Try 2, maybe: model.n_head=1.")
    done = command("better")
    *_, kept, _ = done.stdout.splitlines()
    assert re.fullmatch(rf"Keep better: better by 0\.\d{{3}} bits, {interval}\. better is now the baseline\.", kept)
    assert (done.exit_code, json.loads(command("better", "--json").stdout)["verdict"]) == (0, "keep")


def test_the_verdict_goes_to_the_run_with_the_outputs_of_the_try(begun, monkeypatch) -> None:
    """The run may have another name, if the experiment was renamed."""
    saved = []
    runs = [("worse before it was renamed", begun.made["worse"].lock), ("other", {})]
    monkeypatch.setattr("bukva.compare.results.results_of", court.results_of)
    monkeypatch.setattr(record, "run_of", lambda lock, _: next(run for run, its in runs if its == lock))
    monkeypatch.setattr(record, "save_note", lambda *note: saved.append(note))
    command("worse")
    assert saved == [("worse before it was renamed", {"bukva.judge": "discard", "bukva.try": "1"}, {})]


def test_the_table_and_the_page_of_a_night_have_its_tries_and_say_what_they_cost(begun, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "150")
    assert judged_tries() is None
    ledger = court.read_ledger()
    first = np.mean(ledger.first.bits)
    assert court.selection_bias(ledger) == 0
    judge("better")
    judge("worse")
    ledger = court.read_ledger()
    said = "Tries: 2, kept: 1, trainings: 17 (reports/judge.jsonl). The baseline is now better with"
    assert judged_tries()["sentence"].startswith(said)
    assert judged_tries()["chart"]["layer"]
    shown = command().stdout.replace("│", " ")
    assert re.search(r"1\s+better\s+model\.n_head=8\s+8\s+-0\.\d{3}\s+±0\.0\d{2}\s+keep", shown)
    assert re.search(r"2\s+worse\s+model\.n_head=2\s+1\s+\+0\.\d{3}.*discard", shown)
    assert said in shown
    assert [each["verdict"] for each in json.loads(command("--json").stdout)["tries"]] == ["keep", "discard"]
    assert 0 < court.selection_bias(ledger) < 0.01  # val may flatter the winner
    rows, steps = report.chart_rows(ledger)
    assert rows["verdict"].tolist() == ["keep", "discard"]
    assert rows["bits"].tolist() == pytest.approx([np.mean(each.trained.bits) for each in ledger.tries])
    assert (rows["low"] < rows["bits"]).all()
    assert steps["bits"].iloc[-1] == pytest.approx(np.mean(ledger.baseline.bits))
    assert steps["bits"].tolist() == pytest.approx([first, first - 0.2, first - 0.2], abs=0.02)


NO_LEDGER = "No ledger (list of tries) exists yet. To begin a ledger: `bukva judge BASELINE"


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (["a", "b", "c"], "judge: got 3 names. Give the name of a try, or the names of a baseline and a try."),
        (["base", "better", "--level", "10"], "`--level` must be between 0 and 1, for example 0.1; got 10.0."),
        (["better"], f"{NO_LEDGER} better`."),
        ([], f"{NO_LEDGER} TRY`."),
        (["--final"], f"{NO_LEDGER} TRY`."),
        (["--give-up"], "judge --give-up: give the name of one try. To list the tries: `bukva judge`."),
        (["a", "b", "--give-up"], "judge --give-up: give the name of one try. To list the tries: `bukva judge`."),
        (["a", "--final"], "judge --final: this option takes no names and no other action. Run `bukva judge --final`."),
        (["better", "--give-up"], f"{NO_LEDGER} TRY`."),
    ],
)
def test_a_command_without_a_ledger_says_how_to_begin_one(night, arguments, what) -> None:
    done = command(*arguments)
    assert (done.exit_code, str(done.exception)) == (1, what)
    assert not (night.folder / court.FILE).exists()


def test_every_command_prints_json_and_its_exit_status_is_0_only_for_a_baseline(begun) -> None:
    """The ledger began with HEAD, for example. HEAD is a try as soon as a commit gives this name to another result."""
    ledger = json.loads(command("base", "--json").stdout)  # a loop that is started again
    assert ledger == json.loads(command("--json").stdout)
    assert (ledger["baseline"]["name"], ledger["tries"]) == ("base", [])
    assert "The baseline is now base with" in command("base").stdout
    begun.made["base"] = begun.made["worse"]
    done = command("base", "--json")
    assert (done.exit_code, json.loads(done.stdout)["verdict"]) == (3, "discard")
    done = command("base")
    assert (done.exit_code, done.stdout.splitlines()[1][:13]) == (3, "Discard base:")
    assert str(command("base", "better").exception) == (
        "judge: base is not the baseline of the ledger. The baseline is base. Give only the name of the try: "
        "`bukva judge better`."
    )
    begun("small", 1, SMALL)
    court._append(
        "try", asdict(replace(court.read_ledger().tries[0], number=2, verdict="", trained=court.Trained("small", "?")))
    )
    done = command("small", "--give-up", "--json")
    assert (done.exit_code, json.loads(done.stdout)["verdict"]) == (3, "discard")


def test_no_two_processes_change_the_ledger_at_the_same_time(begun, monkeypatch) -> None:
    before = court.read_ledger(), list(begun.trained)
    monkeypatch.setattr(court, "LOCK_SECONDS", 0)
    with FileLock(begun.folder / court.LOCKS / "0.lock"):  # as another process
        for arguments in (["worse"], ["base", "worse"], ["worse", "--give-up"], ["--final"]):
            assert str(command(*arguments).exception) == (
                "Another `bukva judge` is changing the ledger. Wait until it has ended, and run the command again."
            )
        assert command().exit_code == 0
        assert (court.read_ledger(), begun.trained) == before
    assert command("worse").exit_code == 3
    assert court.begin("better", "gpt", 0.2, "better", None) == court.read_ledger()  # another process was faster


def test_a_try_whose_code_git_does_not_have_is_named_before_a_training_and_the_trained_baseline_is_kept(
    night, monkeypatch
) -> None:
    lacking = {"better" * 40: {"code.py": ""}}
    monkeypatch.setattr(court, "digests", lambda paths, commit: paths | lacking.get(commit, {}))
    assert str(command("base", "better").exception) == (
        "better cannot be trained with another seed, because its commit does not have code.py as it was in its "
        "training. If git does not track a new file, run `git add`, and repeat the experiment under another name."
    )
    assert night.trained == seeds_of("base", range(2, 9))
    assert court.read_ledger().open[0].trained.name == "better"


def test_another_number_of_threads_is_said_before_anything_trains(begun, monkeypatch, capsys) -> None:
    judge("better")
    assert "thread" not in capsys.readouterr().out
    begun("small", 1, SMALL, numerics=NUMERICS | {"threads": "4"})
    monkeypatch.setattr(trainer, "n_cores", lambda: 8)
    begun("same", 1, {"compute.threads": 0, "train_gpt.processes": 2})
    for name, said in {
        "small": "The next seeds of small have 1 thread, but some finished trainings had 4. The number of threads",
        "same": "The next seeds of same have 4 threads, but some finished trainings had 1. The number of threads",
    }.items():
        judge(name)
        first, second, *_ = capsys.readouterr().out.splitlines()
        assert first.startswith(said)
        assert second.startswith("Try ")


def test_more_seeds_at_a_time_than_cores_are_refused_before_the_try_is_in_the_ledger(begun) -> None:
    said = str(command("better", "--parallel", "9999").exception)
    assert said.startswith("`--parallel` is 9999, but each training needs 1 (compute.threads) and this machine has ")
    assert not court.read_ledger().tries


# `bukva judge` with fewer seeds, of the fake project, whose code has another name
FEWER = """
import sys
from bukva.cli.app import main
from bukva.compare import judge
from bukva.compare.statistics import judging
judge.N_SEEDS, judge.EDITABLE = (1, 2, 4), ("code",)
judging.N_SEEDS = judge.N_SEEDS
sys.argv[:1] = ["bukva", "judge"]
main()
"""


@pytest.mark.slow
def test_seeds_have_the_code_of_their_try_and_in_parallel_the_ledger_is_the_same_to_the_byte(
    template, tmp_path
) -> None:
    pytest.importorskip("ray")
    ledgers, printed = [], ""
    for options in ([], ["--parallel", "2"]):
        project = template.copy_to(tmp_path / str(len(options)) / "bukva")
        project.env["OMP_NUM_THREADS"] = "2"  # the number of cores
        project.run("python", "-c", FEWER, "HEAD", *options)
        project.edit("code/one.py", "1", "2")
        (project.folder / "code/three.py").write_text("3", encoding="utf-8")
        project.run("git", "add", "-A", "code")
        project.run("dvc", "exp", "run", "-n", "try", "-S", "model.n_layer=9")
        project.run("git", "reset", "-q", "--hard")
        (project.folder / "code/three.py").rename(project.folder / "code/four.py")
        project.commit("the checkout has another file")
        printed = project.run("python", "-c", FEWER, "try", *options)
        assert project.run("git", "status", "--porcelain") == f" M {court.FILE}\n"
        ledgers.append(project.read(str(court.FILE)))
    assert "Keep try" in printed
    assert ledgers[0] == ledgers[1]
    assert ledgers[0].count("\n") == 3
    [last] = project.run("git", "for-each-ref", "--format=%(refname)", "refs/exps/*/*/try-s1340").split()
    listed = project.run("git", "diff", "--no-renames", "--name-status", "HEAD", last, "--", "code").split()
    assert listed == ["D", "code/four.py", "M", "code/one.py", "A", "code/three.py"]
    assert "2 finished" in project.bukva("sweep", "status", "judge-try")


@pytest.mark.slow
def test_missing_seeds_are_trained_by_dvc_and_found_after_a_commit_whatever_has_their_names(
    project, bukva, monkeypatch
) -> None:
    def names(prefix):
        return {(e.dvc_name, e.baseline == start) for e in court.experiments() if e.name.startswith(prefix)}

    for module in (court, judging):
        monkeypatch.setattr(module, "N_SEEDS", (1, 2, 4))
    start = court.git("rev-parse", "HEAD").decode().strip()
    project.run("git", "update-ref", experiment_ref(start, "HEAD-s1340"), "HEAD")  # the name is taken
    project.run("dvc", "exp", "run", "--temp", "-n", "try", "-S", "model.n_layer=9")

    def train_unlucky(self, trials, *rest):
        return train(self, {seed: (name, ["model.n_layer=13"]) for seed, (name, _) in trials.items()}, *rest)

    train, log_file = SeedTrainer.train, project.folder / ".bukva/sweeps/logs/HEAD-s1339.log"
    with monkeypatch.context() as patch:
        patch.setattr(SeedTrainer, "train", train_unlucky)
        assert str(bukva("judge", "HEAD", "try").exception) == (
            "Experiment HEAD-s1339 failed: stage train-gpt: params.yaml, model.n_layer: 13 is unlucky (log: "
            f"{log_file})."
        )
    assert bukva("judge", "HEAD", "try").exit_code == 0
    log = log_file.read_text(encoding="utf-8")
    assert "Running stage 'train-gpt'" in log
    assert "Running stage 'split'" not in log
    # there is no HEAD-s1338, because experiment s1338 is this training
    assert names("HEAD") == {(name, True) for name in ("HEAD-s1339", "HEAD-s1340", "HEAD-s1340-2")}
    assert project.run("git", "status", "--porcelain").split() == ["??", "reports/judge.jsonl"]

    project.run("dvc", "exp", "remove", "try-s1340")
    project.commit("Keep the try")
    # the next loop uses the name again, for another change
    project.run("dvc", "exp", "run", "--temp", "-n", "try", "-S", "model.n_layer=8")
    ledger = court.read_ledger()
    first = court._setting(ledger.first.name, "gpt", ledger.first.key)
    assert first.seeds == [1337, 1338, 1339, 1340]  # 1337 is the commit before HEAD
    best = court._with_seeds(court._setting("try", "gpt", ledger.baseline.key), 5, SeedTrainer("judge", 1, ""))
    old, new = {"try", "try-s1338", "try-s1339"}, {"try", "try-s1340", "try-s1341"}
    assert names("try") == {(name, True) for name in old} | {(name, False) for name in new}
    assert best.seeds == [1337, 1338, 1339, 1340, 1341]
    assert bukva("judge", "try").exit_code in (3, 4)  # the new change is a new try
    assert [each.trained.name for each in court.read_ledger().tries] == ["try", "try"]
