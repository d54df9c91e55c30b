"""A search tries as many settings as asked, stops those that fall behind, and goes on after a kill."""

import json
from functools import partial
from pathlib import Path

import pytest
from cluster.fakes import FakeEngine, FakeWorker, place

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


class Training(FakeWorker):
    """A worker whose curve falls to the score of its settings; each look shows a scoring more."""

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

    def make(n: int = 20) -> tuple[Search, Sweep]:
        guide = Search("find", commit, read_space(Path("space.yaml")), n, training, True, place(project))
        return guide, Sweep("find", commit, guide.known())

    return make


def run(project, made, engine, look=lambda _: None) -> Board:
    guide, sweep = made
    return Driver(sweep, place(project), engine, look, guide).run()


@pytest.mark.slow
def test_a_search_that_was_killed_goes_on_with_the_same_trials_and_stops_those_that_fall_behind(project, search):
    def look(board: Board) -> None:
        if board.count("finished") + board.count("pruned") >= 5:
            raise KeyboardInterrupt

    first, engine = FakeEngine(partial(Training, project)), FakeEngine(partial(Training, project))
    with pytest.raises(KeyboardInterrupt):
        run(project, search(), first, look)
    before = Board.read("find").trials
    guide, sweep = search()
    assert {trial.name for trial in sweep.trials} == set(before)
    board = run(project, (guide, sweep), engine)
    over = {name for name, entry in before.items() if entry.state in ("finished", "pruned")}
    assert not over & {job.trial for job in engine.jobs}
    assert board.count("finished") + board.count("pruned") == len(board.trials) == 20
    assert board.count("pruned") >= 8
    for entry in board.trials.values():  # at 1/9 or at 1/3 of the updates, or one scoring later, when the news comes
        assert entry.state != "pruned" or entry.progress.step in (100, 200, 300, 400)
    finished = {job.trial: score_of(job) for job in [*first.jobs, *engine.jobs]
                if board.trials[job.trial].state == "finished"}  # fmt: skip
    best = guide.best()
    assert best is not None
    assert best.name == min(finished, key=finished.__getitem__)
    assert guide.score(best.name) == finished[best.name] < 1.3


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("model.dropout: {low: 0.5, high: 0.1}\n", "(low 0.5 is not less than high 0.1); "),
        ("train_gpt.n_steps: [100, 200]\n", "train_gpt.n_steps must stay the same in a search"),
        ("model.n_layer: [1, none]\n", "-S model.n_layer=none: params.yaml, model.n_layer: 'none' (str) is invalid"),
    ],
)
def test_a_space_that_makes_no_sense_is_one_sentence_before_anything_runs(project, text, sentence):
    Path("space.yaml").write_text(text)
    with pytest.raises(BukvaError) as error:
        check(list(extremes(read_space(Path("space.yaml")))))
    assert sentence in str(error.value)
