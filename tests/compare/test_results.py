"""Results of a project whose experiments DVC ran for real, beside what DVC itself says; can they be made again?"""

import json
import shutil
import subprocess
import sys

import pytest
from ruamel.yaml import YAML

from bukva.compare import results
from bukva.compare.results import as_checkout, read_results, results_of, verify
from bukva.core.errors import BukvaError
from bukva.project.cache import _cache_folder, digests, push
from bukva.project.lock import all_sources
from bukva.project.revisions import resolve

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::DeprecationWarning")]  # of what DVC imports

STALE = "stage train-gpt has changed data/models/gpt since stage evaluate ran"

# What DVC's API has of each revision, in JSON; of the scores, where its cache has the files.
ASK = """
import json, sys
from dvc.repo import Repo
repo, answers = Repo("."), {}
for name in sys.argv[1:]:
    with repo.switch(name):
        (scores,) = (out for out in repo.index.outs if str(out) == "data/scores")
        files = scores.get_obj().as_list()
        answers[name] = {
            "params": repo.params.show()[""]["data"]["params.yaml"]["data"],
            "metrics": repo.metrics.show()[""]["data"]["reports/metrics.json"]["data"],
            "scores": {file["relpath"]: repo.cache.local.oid_to_path(file["md5"]) for file in files},
        }
print(json.dumps(answers))
"""


def problem(name):
    (result,) = read_results([resolve(name)])
    assert not result.is_complete
    assert (result.metrics, result.curves, result.scores) == ({}, {}, {})
    return result.problem


def outputs(project):
    return project.outputs() | {"status": project.run("git", "status", "--porcelain")}


def forget(project):
    """Delete DVC's cache, and the scores in the checkout."""
    shutil.rmtree(project.folder / ".dvc/cache")
    shutil.rmtree(project.folder / "data/scores")


def test_a_result_is_what_dvc_says_and_the_checkout_stays(project):
    before = outputs(project)
    results = results_of(["main", "two-heads", "s1338"])
    (answers,) = project.run(sys.executable, "-c", ASK, *(result.revision.commit for result in results)).splitlines()
    for result, answer in zip(results, json.loads(answers).values(), strict=True):
        assert (result.params, result.metrics) == (answer["params"], answer["metrics"])
        assert {name: str(file) for name, file in result.scores.items()} == answer["scores"]
        last = {"step": result.params["train_gpt"]["n_steps"], "chars_seen": 1024000, "val_nats_per_char": 1.8}
        assert result.curves["gpt"][-1].items() >= last.items()
    assert [result.params["model"]["n_head"] for result in results] == [4, 2, 4]
    workspace, main = results_of(["workspace", "main"])
    assert (workspace.lock, workspace.metrics, workspace.scores) == (main.lock, main.metrics, main.scores)
    recorded = all_sources("evaluate", main.lock)
    assert recorded.keys() == {"data/sample", "fake.py", "code", "score.py"}
    assert recorded["code"].endswith(".dir")
    assert digests(recorded) == digests(recorded, main.revision.commit) == recorded
    absolute = str(project.folder / "data/sample")
    assert {*digests([absolute, "../bukva/data/sample"]).values()} == {recorded["data/sample"]}
    assert outputs(project) == before
    (project.folder / "code/three.py").touch()  # which the commit does not have
    assert digests(["code"]) != digests(["code"], main.revision.commit) == {"code": recorded["code"]}


@pytest.mark.parametrize(
    ("file", "old", "new", "reason"),
    [
        ("params.yaml", "  n_head: 4", "  n_head: 2", "stage train-gpt ran with model.n_head=4, but params.yaml has 2"),
        ("code/deep/two.py", "2", "22", "code has changed since stage train-gpt ran"),
        ("data/sample/a.txt", "text", "words", "data/sample has changed since stage split ran"),
        ("reports/metrics.json", "val", "Val", "reports/metrics.json differs from the file recorded in dvc.lock"),
        ("reports/metrics.json", "", "", "reports/metrics.json is missing, but is recorded in dvc.lock"),
        (
            "dvc.lock",
            "path: reports/metrics.json",
            "path: metrics.json",
            "dvc.lock has no record of reports/metrics.json",
        ),
    ],
)
def test_a_checkout_or_a_commit_that_was_not_run_as_it_stands_is_refused(project, file, old, new, reason):
    project.edit(file, old, new) if new else (project.folder / file).unlink()
    assert problem("workspace") == reason
    with pytest.raises(BukvaError) as error:
        results_of(["workspace"])
    assert str(error.value) == f"workspace: {reason}. Run `dvc repro`."
    if not file.startswith(("code", "data")):  # which are compared with the files of the checkout only
        project.commit("not run")
        assert problem("HEAD") == reason


def test_changes_that_cannot_change_a_score_leave_a_result_complete(project):
    for file, old, new in [
        ("params.yaml", "# The values", "# Values"),
        ("params.yaml", "  temperature: 0.8", "  temperature: 0.9"),
        ("params.yaml", "  short_context: 8", "  short_context: 9"),
        ("dvc.yaml", "fake.py, code]", "fake.py]"),
    ]:
        project.edit(file, old, new)
    assert "up to date" in project.run("dvc", "status", "evaluate", "--with-deps")
    assert results_of(["workspace"])[0].scores == results_of(["main"])[0].scores


def test_a_run_that_ended_after_the_training_has_not_the_scores_of_its_baseline(project):
    yaml, lock = YAML(), project.folder / "dvc.lock"
    mixed = yaml.load(project.read_from_experiment("two-heads", "dvc.lock"))
    for stage in ("evaluate", "sample"):
        mixed["stages"][stage] = yaml.load(lock)["stages"][stage]
    yaml.dump(mixed, lock)
    project.set({"model": {"n_head": 2}})
    assert problem("workspace") == STALE
    project.commit("partial")
    assert problem("HEAD") == STALE


def test_scores_are_fetched_from_a_remote_that_was_added_and_committed_after_the_experiment(project, tmp_path):
    known = [result.scores for result in results_of(["main", "two-heads"])]
    project.run("dvc", "remote", "add", "-d", "store", str(tmp_path / "store"))
    project.commit("a remote")
    push()
    forget(project)
    with as_checkout(read_results([resolve("two-heads")])[0], {"data/models/gpt"}) as folder:
        assert (folder / "data/models/gpt/config.json").is_file()
    assert [result.scores for result in results_of(["main", "two-heads"])] == known


@pytest.mark.parametrize(
    ("remote", "why"),
    [
        ("", "is not in DVC's cache, and this checkout has no DVC remote"),
        ("store", "is not in DVC's cache, and not on the DVC remote"),
        ("s3://bucket", "is not in DVC's cache, and cannot be fetched (s3"),
    ],
)
def test_scores_that_no_cache_has_are_refused_and_the_message_says_why(project, tmp_path, remote, why):
    if remote:
        url = remote if ":" in remote else str(tmp_path / remote)
        project.run("dvc", "remote", "add", "--local", "-d", "store", url)
    forget(project)
    with pytest.raises(BukvaError) as error:
        results_of(["main"])
    assert str(error.value).startswith(f"main: data/scores {why}")
    assert ". Run `dvc exp run --temp -n main-again`." in str(error.value)


def test_in_a_git_worktree_the_message_says_how_to_use_the_cache_of_the_main_one(project, tmp_path, monkeypatch):
    known = results_of(["main"])[0].scores
    project.run("git", "worktree", "add", "-q", str(tmp_path / "tree"))
    monkeypatch.chdir(tmp_path / "tree")
    command = f"dvc cache dir --local {project.folder}/.dvc/cache"
    with pytest.raises(BukvaError) as error:
        results_of(["main"])
    assert f"is not in DVC's cache (to use the cache of the main git worktree: `{command}`), and this" in str(
        error.value
    )
    subprocess.run(command.split(), check=True)
    _cache_folder.cache_clear()
    assert results_of(["main"])[0].scores == known


def test_a_result_can_be_made_again_with_its_code_data_and_machine_and_what_differs_is_named(project):
    numerics = results_of(["main"])[0].about["models"]["gpt"]["numerics"]
    for name in ("main", "two-heads", "workspace"):
        assert verify(name, numerics)[0] == []
    changes, _ = verify("two-heads", numerics | {"arithmetic": "another"})
    assert changes == [f"trained with arithmetic {numerics['arithmetic']}, but this machine has another"]
    project.set({"model": {"n_layer": 3}})  # of the checkout, not of the experiment
    command = "dvc exp run --temp -n two-heads-again -S model.n_layer=4 -S model.n_head=2"
    assert verify("two-heads", numerics) == ([], command)
    assert verify("workspace", numerics)[0]  # dvc.lock is of the former value
    for file, old in (("code/deep/two.py", "2"), ("data/sample/a.txt", "text")):
        project.edit(file, old, "33")
    changed = {"code has changed since stage train-gpt ran", "data/sample has changed since stage split ran"}
    for name in ("main", "two-heads"):
        assert set(verify(name, numerics)[0]) == changed
    forget(project)
    *_, unknown = verify("two-heads", {})[0]  # an unknown machine is not taken for equal
    assert unknown.startswith("the versions and the processor of its training are unknown")


def test_without_a_saved_baseline_the_checkout_serves_unless_it_has_an_experiment(monkeypatch):
    def nothing(name):
        raise BukvaError(f"{name}: nothing has this name")

    monkeypatch.setattr(results, "resolve", nothing)
    for known, edited in (([], b"params.yaml\n"), (["wide"], b"")):
        monkeypatch.setattr(results, "experiments", lambda known=known: known)
        monkeypatch.setattr(results, "git", lambda *_, edited=edited: edited)
        assert results.default_baseline() == "workspace"
    monkeypatch.setattr(results, "git", lambda *_: b"params.yaml\n")
    with pytest.raises(BukvaError, match=r"Run `git checkout HEAD params\.yaml && make repro`"):
        results.default_baseline()
