"""Whether a result can be made again, in a project whose experiments DVC ran for real."""

import shutil

import pytest

from bukva.base.errors import BukvaError
from bukva.experiments.results import results_of
from bukva.experiments.verify import sentences, verify

pytestmark = pytest.mark.slow


def numerics():
    return results_of(["main"])[0].about["models"]["gpt"]["numerics"]


@pytest.mark.parametrize("name", ["main", "two-heads", "s1338", "workspace"])
def test_a_result_of_this_code_and_data_can_be_made_again(project, name):
    found = verify(name, numerics())
    assert (found.changes, found.arithmetic, found.is_reproducible) == ([], [], True)


@pytest.mark.parametrize("name", ["main", "two-heads"])
def test_code_that_has_changed_is_named_with_the_stage_that_ran_it(project, name):
    project.edit("code/deep/two.py", "2", "3")
    found = verify(name, numerics())
    assert found.changes == ["code has changed since stage train-gpt ran"]
    assert not found.is_reproducible


def test_a_file_of_a_later_stage_is_named_too(project):
    project.edit("score.py", "32", "33")
    assert verify("two-heads", numerics()).changes == ["score.py has changed since stage evaluate ran"]


def test_data_that_have_changed_are_named(project):
    (project.folder / "data/sample/a.txt").write_text("another text", encoding="utf-8")
    assert verify("two-heads", numerics()).changes == ["data/sample has changed since stage split ran"]


def test_a_parameter_of_the_checkout_does_not_matter(project):
    project.set({"model": {"n_layer": 3}})
    assert verify("two-heads", numerics()).is_reproducible
    assert not verify("workspace", numerics()).is_reproducible  # dvc.lock is of the former value


def test_another_machine_is_told_by_its_arithmetic(project):
    here = numerics() | {"arithmetic": "another"}
    found = verify("two-heads", here)
    assert found.changes == []
    assert found.arithmetic == [f"arithmetic {numerics()['arithmetic']} there, another here"]
    assert not found.is_reproducible


def test_an_experiment_without_a_whole_run_is_not_reproducible(project):
    assert verify("partial", numerics()).changes


def test_arithmetic_that_is_unknown_is_not_taken_for_equal(project):
    shutil.rmtree(project.folder / ".dvc/cache/files")
    shutil.rmtree(project.folder / "data/scores")
    [unknown] = verify("two-heads", {}).arithmetic
    assert unknown.startswith("that of its training is unknown")
    assert "  " + unknown in sentences("two-heads", verify("two-heads", {}))


def test_an_unknown_name_is_one_sentence(project):
    with pytest.raises(BukvaError, match="no experiment, branch, tag or commit has this name"):
        verify("two-head", numerics())
