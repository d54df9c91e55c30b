"""Queueing the missing seeds, in DVC's own queue."""

import pytest

from bukva.base.errors import BukvaError
from bukva.experiments.groups import groups, training_key
from bukva.experiments.present import present
from bukva.experiments.results import read_results, results_of
from bukva.experiments.revisions import experiments
from bukva.experiments.seeds import queue_seeds
from bukva.experiments.states import states

pytestmark = pytest.mark.slow

START = "Start the queue: dvc queue start"


def queued(n):
    return list(queue_seeds(n, "gpt"))


def short(project):
    return training_key(present(), "gpt")[:7]


def waiting():
    return sorted(state.name for state in states() if state.kind == "queued")


def test_the_seeds_that_exist_are_kept_and_the_missing_ones_become_one_group(project):
    before = project.outputs()
    name = f"{short(project)}-s1339"
    known = ["seed 1337: HEAD", "seed 1338: experiment s1338"]
    assert queued(3) == [*known, f"seed 1339: queued as {name}", START]
    assert queued(3) == [*known, f"seed 1339: queued {name}", START]
    assert waiting() == [name]
    assert project.outputs() == before
    project.run("dvc", "exp", "run", "--run-all")
    assert queued(3)[-1] == "There are 3 seeds of this configuration; nothing is missing."
    (group,) = (group for group in groups(read_results(experiments()), "gpt") if len(group.members) > 1)
    assert [member.seed for member in group.members] == [1338, 1339]
    assert group.key == groups(results_of(["main"]), "gpt")[0].key
    project.wait_for_background()


def test_a_configuration_that_nobody_ran_begins_with_the_seed_of_its_file(project):
    project.set({"model": {"n_layer": 3}, "train_gpt": {"seed": 7}})
    key = short(project)
    assert queued(2) == [f"seed {seed}: queued as {key}-s{seed}" for seed in (7, 8)] + [START]
    project.set({"train_gpt": {"seed": 8}})  # the next seeds count from here
    assert queued(3)[-2:] == [f"seed 9: queued as {key}-s9", START]


def test_edited_code_is_another_configuration(project):
    project.edit("code/one.py", "1", "2")
    assert [line.partition(":")[0] for line in queued(2)[:-1]] == ["seed 1337", "seed 1338"]
    assert len(waiting()) == 2
    project.run("git", "checkout", "-q", "code")
    assert queued(2)[0] == "seed 1337: HEAD"


def test_edited_code_of_evaluate_alone_keeps_the_trainings_until_it_scores_otherwise(project):
    project.edit("score.py", "32", "31")
    assert queued(2)[-1] == "There are 2 seeds of this configuration; nothing is missing."
    project.run("dvc", "repro", "-q")
    assert queued(2) == [
        "seed 1337: workspace",
        f"seed 1338: queued as {short(project)}-s1338",
        START,
    ]


def test_a_name_that_is_taken_gets_a_number(project):
    project.set({"model": {"n_layer": 13}})
    first = queued(2)
    project.run("dvc", "exp", "run", "--run-all")
    assert [line.partition(" as ")[2] for line in queued(2)[:-1]] == [
        line.partition(" as ")[2] + "-2" for line in first[:-1]
    ]
    project.run("dvc", "queue", "remove", "--queued")
    project.wait_for_background()


@pytest.mark.parametrize("n", [1, 0, -1])
def test_one_seed_is_refused(project, n):
    with pytest.raises(BukvaError, match=f"N={n}: one seed tells nothing about seeds; use 2 or more"):
        queued(n)


def test_a_project_that_is_not_ready_is_one_sentence(project):
    (project.folder / "code/three.py").touch()
    with pytest.raises(BukvaError, match=r"code/three\.py: not tracked by git"):
        queued(2)
    project.run("git", "rm", "-q", "--cached", "dvc.lock")
    with pytest.raises(BukvaError, match=r"dvc\.lock: not tracked by git"):
        queued(2)
    project.run("git", "checkout", "-q", "--orphan", "empty")
    with pytest.raises(BukvaError, match="has no commit"):
        queued(2)
    project.run("rm", "-rf", ".git")
    with pytest.raises(BukvaError, match="run `git init`"):
        queued(2)


def test_what_dvc_says_is_part_of_the_sentence(project):
    (project.folder / ".dvc/config").write_text("[core]\nno_such_key = 1\n", encoding="utf-8")
    with pytest.raises(BukvaError, match="DVC does not queue seed 1339: "):
        queued(3)
