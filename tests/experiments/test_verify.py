"""Whether a result can be made again, in a project whose experiments DVC ran for real."""

import shutil

import pytest

from bukva.experiments.results import results_of
from bukva.experiments.verify import sentences, verify

pytestmark = pytest.mark.slow


@pytest.fixture
def numerics(project):
    return results_of(["main"])[0].about["models"]["gpt"]["numerics"]


def test_a_result_of_this_code_and_data_can_be_made_again(project, numerics):
    for name in ("main", "two-heads", "workspace"):
        found = verify(name, numerics)
        assert (found.changes, found.arithmetic, found.is_reproducible) == ([], [], True)
    project.set({"model": {"n_layer": 3}})  # of the checkout, not of the experiment
    assert verify("two-heads", numerics).is_reproducible
    assert not verify("workspace", numerics).is_reproducible  # dvc.lock is of the former value


@pytest.mark.parametrize(
    ("file", "old", "reason"),
    [
        ("code/deep/two.py", "2", "code has changed since stage train-gpt ran"),
        ("score.py", "32", "score.py has changed since stage evaluate ran"),
        ("data/sample/a.txt", "text", "data/sample has changed since stage split ran"),
    ],
)
def test_code_and_data_that_have_changed_are_named_with_the_stage_that_read_them(project, numerics, file, old, reason):
    project.edit(file, old, "33")
    for name in ("main", "two-heads"):
        found = verify(name, numerics)
        assert (found.changes, found.is_reproducible) == ([reason], False)


def test_another_machine_is_told_by_its_arithmetic_and_an_unknown_one_is_not_taken_for_equal(project, numerics):
    found = verify("two-heads", numerics | {"arithmetic": "another"})
    assert found.changes == []
    assert found.arithmetic == [f"arithmetic {numerics['arithmetic']} there, another here"]
    assert not found.is_reproducible
    shutil.rmtree(project.folder / ".dvc/cache/files")
    shutil.rmtree(project.folder / "data/scores")
    [unknown] = verify("two-heads", {}).arithmetic
    assert unknown.startswith("that of its training is unknown")
    assert "  " + unknown in sentences("two-heads", verify("two-heads", {}))
