"""A search tries as many settings as asked, stops those that fall behind, and goes on after a kill."""

import json
from pathlib import Path

import pytest
from cluster.fakes import FakeEngine, FakeWorker, place
from optuna.trial import TrialState

from bukva.base.errors import BukvaError
from bukva.cluster.board import Board
from bukva.cluster.driver import Driver
from bukva.cluster.job import DONE, Job, News
from bukva.cluster.origin import result_ref, run_git
from bukva.cluster.search import Search
from bukva.cluster.space import extremes, read_space
from bukva.cluster.trials import Sweep, check
from bukva.config.load import read_params

SPACE = """\
model.n_layer: [1, 2, 3]
train_gpt.learning_rate: {low: 0.0001, high: 0.01, log: true}
train_gpt.batch_size: {low: 16, high: 48, step: 16}
"""
N_STEPS, EVAL_EVERY = 900, 100


def score_of(job: Job) -> float:
    """The best is 1.0, at a learning rate of 0.001 with three layers."""
    values = dict(setting.split("=") for setting in job.settings)
    return 1 + abs(float(values["train_gpt.learning_rate"]) - 0.001) * 100 + (3 - int(values["model.n_layer"])) * 0.1


class Trainer:
    """Workers whose curve falls to the score of their settings; each look at one shows a scoring more."""

    def __init__(self, project: Path) -> None:
        self.project, self.longest = project, 0

    def play(self, job: Job) -> FakeWorker:
        return Training(self.project, job)


class Training(FakeWorker):
    def __init__(self, project: Path, job: Job) -> None:
        super().__init__([], None)
        self._project, self._job, self._step = project, job, 0

    def news(self) -> list[str]:
        if self._status is not None:
            return []
        self._step += EVAL_EVERY
        val = score_of(self._job) + (N_STEPS - self._step) / N_STEPS
        values = {"stage": "train-gpt", "step": self._step, "n_steps": N_STEPS, "val": val, "best": val, "rate": 1.0}
        if self._step == N_STEPS:
            self._leave_result()
            self._status = DONE
        return [News("progress", values).to_json()]

    def _leave_result(self) -> None:
        content = json.dumps({"gpt": {"val": score_of(self._job)}}).encode()
        (self._project / "reports").mkdir(exist_ok=True)
        (self._project / "reports/metrics.json").write_bytes(content)
        run_git(self._project, "add", "-f", "reports/metrics.json")
        tree = run_git(self._project, "write-tree").strip()
        identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
        commit = run_git(self._project, *identity, "commit-tree", tree, "-m", "result").strip()
        run_git(
            self._project, "push", "-q", self._job.origin, f"{commit}:{result_ref(self._job.commit, self._job.trial)}"
        )


@pytest.fixture
def search(project):
    """A function that makes the guide anew, as each driver does."""
    (project / "space.yaml").write_text(SPACE)
    commit = run_git(project, "rev-parse", "HEAD").strip()
    training = read_params().train_gpt.model_copy(update={"n_steps": N_STEPS, "eval_every": EVAL_EVERY})

    def make(n: int = 20, *, prune: bool = True) -> tuple[Search, Sweep]:
        guide = Search("find", commit, read_space(Path("space.yaml")), n, training, prune, place(project))
        return guide, Sweep("find", commit, guide.known())

    return make


def run(project, made, engine, look=lambda _: None) -> Board:
    guide, sweep = made
    return Driver(sweep, place(project), engine, look, guide).run()


def test_a_search_prunes_what_falls_behind_and_finds_better_settings_than_its_first(project, search):
    made, engine = search(), FakeEngine(Trainer(project).play)
    board = run(project, made, engine)
    assert len(board.trials) == len(engine.jobs) == 20
    assert board.count("finished") + board.count("pruned") == 20
    assert board.count("pruned") >= 8
    finished = {name: score for name, score in ((job.trial, score_of(job)) for job in engine.jobs)
                if board.trials[name].state == "finished"}  # fmt: skip
    best = made[0].best()
    assert best is not None
    assert best.name == min(finished, key=finished.__getitem__)
    assert finished[best.name] == min(score_of(job) for job in engine.jobs) or finished[best.name] < 1.3
    assert made[0].score(best.name) == finished[best.name]
    for entry in board.trials.values():  # at 1/9 or at 1/3 of the updates, or one scoring later, when the news comes
        assert entry.state != "pruned" or entry.progress.step in (100, 200, 300, 400)


def test_without_pruning_all_trials_finish(project, search):
    board = run(project, search(5, prune=False), FakeEngine(Trainer(project).play))
    assert board.count("finished") == len(board.trials) == 5


def test_a_search_that_was_killed_goes_on_with_the_same_trials(project, search):
    def look(board: Board) -> None:
        if board.count("finished") + board.count("pruned") >= 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(project, search(), FakeEngine(Trainer(project).play), look)
    before = Board.read("find").trials
    guide, sweep = search()
    assert {trial.name for trial in sweep.trials} == set(before)
    engine = FakeEngine(Trainer(project).play)
    board = run(project, (guide, sweep), engine)
    over = {name for name, entry in before.items() if entry.state in ("finished", "pruned")}
    assert not over & {job.trial for job in engine.jobs}
    assert len(board.trials) == 20
    assert board.count("finished") + board.count("pruned") == 20
    states = [each.state for each in guide._study.get_trials()]
    assert states.count(TrialState.COMPLETE) == board.count("finished")
    assert states.count(TrialState.PRUNED) == board.count("pruned")
    again = FakeEngine(Trainer(project).play)
    run(project, search(), again)
    assert again.jobs == []


def test_combinations_that_no_stage_accepts_are_not_tried(project, search):
    (project / "space.yaml").write_text("model.n_embd: [32, 48]\nmodel.n_head: [2, 32]\nmodel.n_layer: [1]\n"
                                        "train_gpt.learning_rate: [0.001]\n")  # fmt: skip
    board = run(project, search(8), FakeEngine(Trainer(project).play))
    assert len(board.trials) == 8
    assert not [
        entry for entry in board.trials.values() if {"model.n_embd=48", "model.n_head=32"} <= set(entry.settings)
    ]


def test_val_that_is_scored_at_the_end_only_is_refused(project, search):
    (project / "space.yaml").write_text("model.n_layer: [1, 2]\n")
    training = read_params().train_gpt.model_copy(update={"n_steps": 900, "eval_every": 900})
    with pytest.raises(BukvaError) as error:
        Search("find", "1" * 40, read_space(Path("space.yaml")), 3, training, True, place(project))
    assert str(error.value) == (
        "train_gpt.eval_every: 900 of 900 updates is too rare to compare trials while they run; use 100 or less, or "
        "--no-prune."
    )


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("model.n_layer: 3\n", "space.yaml: model.n_layer: 3 is invalid; "),
        ("model.n_layer: []\n", "space.yaml: model.n_layer: [] is invalid; "),
        ("model.dropout: {low: 0.5, high: 0.1}\n", "(low 0.5 is not less than high 0.1); "),
        ("model.dropout: {low: 0.0, high: 0.1, log: true}\n", "(log needs a low above 0, and no step); "),
        ("model.dropout: {low: 0.0, high: 0.1, stop: 1}\n", "(Extra inputs are not permitted); "),
        ("train_gpt.n_steps: [100, 200]\n", "train_gpt.n_steps must stay the same in a search"),
        ("- a\n", "space.yaml: contains list, not sections with keys."),
        ("a: [\n", "space.yaml: not YAML: "),
    ],
)
def test_a_space_that_makes_no_sense_is_one_sentence(project, text, sentence):
    Path("space.yaml").write_text(text)
    with pytest.raises(BukvaError) as error:
        read_space(Path("space.yaml"))
    assert sentence in str(error.value)


def test_a_value_that_no_stage_accepts_shows_before_anything_runs(project):
    Path("space.yaml").write_text("model.n_layer: [1, 2, none]\n")
    with pytest.raises(
        BukvaError, match=r"-S model.n_layer=none: params.yaml, model.n_layer: 'none' \(str\) is invalid"
    ):
        check(list(extremes(read_space(Path("space.yaml")))))
