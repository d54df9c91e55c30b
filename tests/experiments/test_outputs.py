"""The outputs of a revision as files: what DVC itself checks out is the oracle."""

import shutil

import pytest

from bukva.base.errors import BukvaError
from bukva.experiments.outputs import as_checkout
from bukva.experiments.results import read_results
from bukva.experiments.revisions import WORKSPACE, resolve
from bukva.pipeline.stages import paths

NEEDED = [paths()[name] for name in ("gpt", "gpt_curve", "scores", "score_table", "metrics")]  # folders and files


def contents(root):
    files = [file for path in NEEDED for file in [root / path, *(root / path).rglob("*")] if file.is_file()]
    return {file.relative_to(root).as_posix(): file.read_bytes() for file in files}


@pytest.mark.slow
def test_an_experiment_has_the_files_that_dvc_checks_out_for_it(project):
    before = contents(project.folder)
    with as_checkout(read_results(resolve(["two-heads"]))[0], NEEDED) as folder:
        found = contents(folder)
        assert contents(project.folder) == before  # the checkout stays as it is
    assert not folder.exists()
    project.run("dvc", "exp", "apply", "two-heads")
    assert found == contents(project.folder) != before
    with as_checkout(read_results(resolve([WORKSPACE]))[0], NEEDED) as folder:
        assert folder == project.folder


@pytest.mark.slow
def test_files_that_are_nowhere_are_one_sentence_with_a_command(project):
    shutil.rmtree(project.folder / ".dvc/cache/files")
    result = read_results(resolve(["two-heads"]))[0]
    with (
        pytest.raises(BukvaError, match=r"two-heads: data/\S+ is not in DVC's cache; fetch it with `dvc pull"),
        as_checkout(result, NEEDED),
    ):
        pass
