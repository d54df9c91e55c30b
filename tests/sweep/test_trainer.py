"""Seeds are trained in parallel as the trials of a sweep, with the files of a commit and a share of the cores."""

import contextlib
from pathlib import Path

import pytest

from bukva.core.errors import BukvaError
from bukva.project.revisions import git, head
from bukva.sweep import engine, trainer
from bukva.sweep.trial import Sweep

TRIALS = {7: ("try-s7", ["train_gpt.seed=7"]), 8: ("try-s8", ["train_gpt.seed=8"])}


def params(threads=0, processes=1, device="auto"):
    return {"compute.threads": threads, "train_gpt.processes": processes, "compute.device": device}


@pytest.fixture(autouse=True)
def machine(monkeypatch):
    """A machine of 8 cores."""
    monkeypatch.setattr(trainer, "n_cores", lambda: 8)


@pytest.mark.parametrize(
    ("number", "address", "given", "expected"),
    [
        (1, "", params(2), 8),
        (2, "", params(), 4),
        (3, "", params(), 2),
        (8, "", params(), 1),
        (9, "", params(), "`--parallel` is 9, but this machine has 8 cores. Use 8 or less."),
        (4, "", params(2), 2),
        (2, "", params(2, processes=2), 4),
        (5, "", params(2), "`--parallel` is 5, but each training needs 2 (compute.threads) and this machine has 8"),
        (2, "", params(9), "`--parallel` is 2, but each training needs 9 (compute.threads) and this machine has 8"),
        (99, "host:1", params(2), 2),
        (99, "host:1", params(), "`--address` needs the number of threads of each training, because machines may have"),
    ],
)
def test_each_training_has_its_threads_or_an_equal_share_of_the_cores(number, address, given, expected):
    trains = trainer.SeedTrainer("judge", number, address)
    if isinstance(expected, int):
        assert trains.cores(given) == expected
    else:
        with pytest.raises(BukvaError) as error:
            trains.cores(given)
        assert str(error.value).startswith(expected)


def test_seeds_are_the_trials_of_a_new_sweep_and_ray_starts_once(project, monkeypatch):
    events, ran = [], []

    @contextlib.contextmanager
    def ray_for(*given):
        events.append(given)
        yield {"cpu": given[1], "gpu": 1.0}
        events.append("end")

    monkeypatch.setattr(engine, "ray_for", ray_for)
    monkeypatch.setattr(engine, "run_all", lambda *given, **options: ran.append((*given, options)))
    with trainer.SeedTrainer("judge-feature/x~1", 2, "") as trains:
        assert list(trains.train(TRIALS, params(device="cpu"), "a" * 40)) == [[7, 8]]
        list(trains.train(TRIALS, params(threads=1), ""))
        assert events == [("", 4, None)]
    assert events[1:] == ["end"]
    (sweep, first, trials, options), (_, second, *_) = ran
    assert sweep == Sweep("judge-feature-x-1", head(), Path.cwd(), edited="a" * 40)
    assert (first, second) == ({"cpu": 4, "gpu": 0}, {"cpu": 1, "gpu": 1})
    assert trials == [{"name": name, "assignments": assignments} for name, assignments in TRIALS.values()]
    assert options == {"anew": True, "max_concurrent_trials": 2}


def test_a_training_without_a_result_is_a_sentence_with_its_name_and_the_cause(project, monkeypatch):
    pytest.importorskip("ray")
    why = "Experiment try-s7 failed: stage train-gpt: 13 is unlucky (log: train.log)."
    reports = [{"name": "HEAD", "why": ""}, {"name": "try-s7", "why": why}]
    monkeypatch.setattr(engine, "run", lambda *_, **__: reports)
    git("update-ref", (sweep := Sweep("judge", head(), Path.cwd())).ref("HEAD"), "HEAD")
    with pytest.raises(BukvaError) as error:
        engine.run_all(sweep, {}, [{"name": each["name"], "assignments": []} for each in reports])
    assert str(error.value) == (
        f"No result for 1 of 2 trials. try-s7: {why} To list all, run `bukva sweep status judge`."
    )
