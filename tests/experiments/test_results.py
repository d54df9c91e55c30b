"""Results of a project whose experiments DVC ran for real, beside what DVC's own API says of them."""

import json
import shutil
import sys

import pytest
from imports import ROOT

from bukva.base.dotted import flatten
from bukva.base.errors import BukvaError
from bukva.experiments.cache import _config
from bukva.experiments.commands import rerun
from bukva.experiments.lock import parse_lock, sources
from bukva.experiments.present import present
from bukva.experiments.results import read_results, results_of
from bukva.experiments.revisions import resolve

pytestmark = pytest.mark.slow

COMPLETE = ["main", "two-heads", "s1338"]

# What DVC's API has of each revision, in JSON; of the scores, where its cache has the files.
ASK = """
import json, sys
from dvc.repo import Repo
repo, answers = Repo("."), {}
for name in sys.argv[1:]:
    with repo.switch(repo.scm.resolve_rev(name) if name == "main" else name):
        (scores,) = (out for out in repo.index.outs if str(out) == "data/scores")
        files = scores.get_obj().as_list()
        answers[name] = {
            "params": repo.params.show()[""]["data"]["params.yaml"]["data"],
            "metrics": repo.metrics.show()[""]["data"]["reports/metrics.json"]["data"],
            "scores": {file["relpath"]: repo.cache.local.oid_to_path(file["md5"]) for file in files},
        }
print(json.dumps(answers))
"""


@pytest.fixture(autouse=True)
def _fresh_settings():
    """DVC's settings are read once by a process, and these tests change them."""
    _config.cache_clear()


def problem(name):
    (result,) = read_results(resolve([name]))
    assert not result.is_complete
    assert (result.metrics, result.trainings, result.scores) == ({}, {}, {})
    return result.problem


def outputs(project):
    return project.outputs() | {"status": project.run("git", "status", "--porcelain")}


def remove_scores(project, name):
    """Remove the arrays of a revision's scores from DVC's cache, and the scores of the checkout."""
    (result,) = results_of([name])
    for file, path in result.scores.items():
        if file.endswith(".npy"):
            path.unlink()
    shutil.rmtree(project.folder / "data/scores", ignore_errors=True)


def test_a_result_is_what_dvc_says_and_the_checkout_stays(project):
    before = outputs(project)
    results = results_of(COMPLETE)
    (answers,) = project.run(sys.executable, "-c", ASK, *(result.revision.commit for result in results)).splitlines()
    for result, answer in zip(results, json.loads(answers).values(), strict=True):
        assert result.params == answer["params"]
        assert result.metrics == answer["metrics"]
        assert {name: str(file) for name, file in result.scores.items()} == answer["scores"]
        assert result.trainings["gpt"].steps == result.params["train_gpt"]["n_steps"]
        assert result.trainings["gpt"].chars_seen == 1024000
        assert result.about["models"]["gpt"]["parameters"] == 7
    assert [result.params["model"]["n_head"] for result in results] == [4, 2, 4]
    assert outputs(project) == before


def test_the_workspace_is_the_last_commit_until_something_changes(project):
    workspace, main = results_of(["workspace", "main"])
    assert (workspace.params, workspace.lock, workspace.metrics) == (main.params, main.lock, main.metrics)
    assert workspace.scores == main.scores


def test_the_checkout_is_recorded_as_dvc_records_it(project):
    for name in ("code/__pycache__/one.cpython-311.pyc", "code/deep/.two.py.part", "code/.hidden/three.py"):
        (project.folder / name).parent.mkdir(exist_ok=True)
        (project.folder / name).write_bytes(b"3")
    project.run("dvc", "repro", "-q")
    lock, now = parse_lock(project.read("dvc.lock")), present()
    assert list(now) == list(lock)
    for name, entry in lock.items():
        assert now[name].params == entry.params
        assert now[name].deps.keys() == entry.deps.keys()
        assert now[name].outs.keys() == entry.outs.keys()
        assert sources(name, now) == sources(name, lock)
    assert lock["train-gpt"].deps["code"].endswith(".dir")


@pytest.mark.parametrize(
    ("file", "old", "new", "reason"),
    [
        ("params.yaml", "  n_head: 4", "  n_head: 2", "stage train-gpt ran with model.n_head 4, and params.yaml has 2"),
        (
            "params.yaml",
            "  test: 0.05",
            "  test: 0.04",
            "stage split ran with split.test 0.05, and params.yaml has 0.04",
        ),
        ("params.yaml", "  n_head: 4", "  n_head: 4\n  new: 1", "stage train-gpt has not run with model.new"),
        ("code/one.py", "1", "11", "code has changed since stage train-gpt ran"),
        ("data/sample/a.txt", "text", "words", "data/sample has changed since stage split ran"),
        ("fake.py", '"""', '""" ', "fake.py has changed since stage split ran"),
        ("reports/metrics.json", "val", "Val", "reports/metrics.json is not the file that dvc.lock recorded"),
        (
            "dvc.yaml",
            "    - fake.py\n    - code\n",
            "    - fake.py\n    - code\n    - params.yaml\n",
            "params.yaml has changed since stage train-gpt ran",
        ),
        (
            "dvc.yaml",
            "    params:\n    - split\n",
            "    params:\n    - clean\n    - split\n",
            "stage split has not run with clean.rules",
        ),
    ],
)
def test_a_workspace_that_has_changed_is_refused(project, file, old, new, reason):
    project.edit(file, old, new)
    assert problem("workspace") == reason
    assert project.run("dvc", "status") != "Data and pipelines are up to date.\n"
    with pytest.raises(BukvaError) as error:
        results_of(["workspace"])
    assert str(error.value) == f"workspace: {reason}; run `dvc repro`."


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("params.yaml", "  # transformer blocks", "  # blocks"),
        ("params.yaml", "  temperature: 0.8", "  temperature: 0.9"),
        ("params.yaml", "  short_context: 8", "  short_context: 9"),
        ("dvc.yaml", "    - code\n", ""),
        ("dvc.yaml", "    - compute\n    - model", "    - model"),
    ],
)
def test_a_workspace_with_changes_that_cannot_change_a_score_is_complete(project, file, old, new):
    project.edit(file, old, new)
    assert "up to date" in project.run("dvc", "status", "evaluate", "--with-deps")
    assert results_of(["workspace"])[0].scores == results_of(["main"])[0].scores


def test_a_commit_whose_parameters_were_not_run_is_incomplete(project):
    project.edit("dvc.yaml", "    - compute\n    - model", "    - model")
    project.edit("params.yaml", "  threads: 0", "  threads: 3")  # which is recorded, and no longer counts
    project.commit("narrowed")
    assert problem("HEAD") == "stage evaluate ran with compute.threads 0, and params.yaml has 3"
    project.run("dvc", "repro", "-q")
    project.commit("run")
    assert results_of(["HEAD"])[0].params["compute"]["threads"] == 3


def test_an_interrupted_repro_is_refused(project):
    project.set({"model": {"n_head": 2}})
    project.run("dvc", "repro", "-q", "train-gpt")
    assert problem("workspace") == "stage evaluate has not run since stage train-gpt made another data/models/gpt"


def test_an_experiment_that_was_not_run_to_the_end_is_incomplete(project):
    reason = "stage evaluate has not run since stage train-gpt made another data/models/gpt"
    assert problem("partial") == reason
    with pytest.raises(BukvaError) as error:
        results_of(["main", "partial"])
    command = "dvc exp run --temp -n partial-again -S model.n_layer=2"
    assert str(error.value) == f"partial: {reason}; run `{command}`."
    project.run(*command.split())
    assert results_of(["partial-again"])[0].params["model"]["n_layer"] == 2


def test_a_failed_experiment_has_no_scores_of_its_baseline(project):
    with pytest.raises(BukvaError) as error:
        results_of(["bad"])
    assert str(error.value) == (
        "bad: failed, stage train-gpt: params.yaml, model.n_layer: 13 is unlucky; its log: `dvc queue logs bad`."
    )


def test_commits_without_scores_are_incomplete(project):
    project.edit("dvc.lock", "reports/scores.json", "reports/other.json")
    project.commit("before metrics.json became the headline")
    assert problem("HEAD") == "stage evaluate ran before it wrote reports/scores.json"
    project.run("git", "rm", "-q", "--cached", "dvc.lock")
    project.run("git", "commit", "-q", "-m", "no lock")
    assert problem("HEAD") == "stage split has not run"
    project.run("git", "checkout", "-q", "HEAD~2", "dvc.lock")
    project.edit("dvc.yaml", "${path.split}/all.txt", "${path.splits}/all.txt")
    project.commit("no such path")
    assert problem("HEAD") == "has no valid dvc.yaml"
    (project.folder / "params.yaml").write_text("a: [", encoding="utf-8")
    project.commit("no params")
    assert problem("HEAD") == "has no valid params.yaml"


def test_a_commit_whose_metrics_are_not_those_of_its_lock_is_incomplete(project):
    project.run("git", "rm", "-q", "--cached", "reports/metrics.json")
    project.run("git", "commit", "-q", "-m", "forgotten")
    assert problem("HEAD") == "reports/metrics.json is not the file that dvc.lock recorded"


def test_missing_files_have_a_command_that_brings_them_back(project):
    project.edit("params.yaml", "  n_head: 4", "  n_head: 1")  # which must stay
    remove_scores(project, "s1338")
    before = outputs(project)
    with pytest.raises(BukvaError) as error:
        results_of(["main", "s1338"])
    command = "dvc exp run --temp -n s1338-again -S model.n_head=4 -S train_gpt.seed=1338"
    assert str(error.value) == (
        f"s1338: files of data/scores are missing in DVC's cache, and no remote is set; run `{command}`."
    )
    project.run(*command.split())
    again, former = results_of(["s1338-again", "s1338"])
    assert again.scores == former.scores
    assert outputs(project) == before


def test_missing_files_of_the_workspace_are_made_by_dvc_repro(project):
    remove_scores(project, "main")
    with pytest.raises(BukvaError, match=r"workspace: .* run `dvc repro`\.$"):
        results_of(["workspace"])
    project.run("dvc", "repro", "-q")
    assert results_of(["workspace", "main"])[1].is_complete


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of what DVC imports
def test_missing_files_are_fetched_from_the_remote(project, tmp_path):
    project.run("dvc", "remote", "add", "--local", "-d", "store", str(tmp_path / "store"))
    project.run("dvc", "push", "-q")
    project.run("dvc", "exp", "apply", "s1338")
    project.run("dvc", "push", "-q")
    project.reset()
    known = results_of(["main", "s1338"])
    for name in ("main", "s1338"):
        remove_scores(project, name)
    _config.cache_clear()
    before = outputs(project)
    assert results_of(["s1338", "workspace"])[0].scores == known[1].scores
    assert results_of(["main"])[0].scores == known[0].scores
    assert outputs(project) == before


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_remote_that_has_them_not_is_part_of_the_sentence(project, tmp_path):
    remove_scores(project, "s1338")
    project.run("dvc", "remote", "add", "--local", "-d", "store", str(tmp_path / "store"))
    _config.cache_clear()
    with pytest.raises(BukvaError, match=r"s1338: .*; run `dvc exp run --temp -n s1338-again"):
        results_of(["s1338"])


def test_files_of_the_checkout_stand_in_for_those_of_the_cache(project):
    known = results_of(["main"])[0]
    shutil.rmtree(project.folder / ".dvc/cache")
    stands_in = results_of(["main"])[0]
    assert {name: file.read_bytes() for name, file in stands_in.scores.items()} == {
        name: (project.folder / "data/scores" / name).read_bytes() for name in known.scores
    }
    (project.folder / "data/scores/works.csv").write_text("", encoding="utf-8")
    with pytest.raises(BukvaError, match="files of data/scores are missing"):
        results_of(["main"])


@pytest.mark.parametrize("level", ["--local", "--project", "--global"])
def test_the_cache_is_found_where_dvc_has_it(project, tmp_path, monkeypatch, level):
    monkeypatch.setenv("DVC_GLOBAL_CONFIG_DIR", str(tmp_path / "global"))
    shutil.rmtree(project.folder / "data/scores")
    (project.folder / ".dvc/cache").rename(tmp_path / "moved")
    environment = {"DVC_GLOBAL_CONFIG_DIR": str(tmp_path / "global")}
    project.run("dvc", "config", level, "cache.dir", str(tmp_path / "moved"), **environment)
    (result,) = results_of(["main"])
    assert all(file.is_relative_to(tmp_path / "moved") for file in result.scores.values())


def test_a_command_sets_every_parameter_that_differs(project, tmp_path):
    values = {"download": {"url": "https://a/b?c=d,e"}, "sample": {"prompts": ["\n", "it's", "true"], "top_p": 0.001}}
    (result,) = results_of(["main"])
    wanted = {section: keys | values.get(section, {}) for section, keys in result.params.items()}
    command = rerun("feature/a b", wanted)
    assert command.startswith("dvc exp run --temp -n feature-a-b-again -S ")
    project.run("bash", "-c", command)
    (made,) = results_of(["feature-a-b-again"])
    assert flatten(made.params) == flatten(wanted)


def test_reading_imports_nothing_heavy(project):
    program = (
        "import sys; from bukva.experiments import groups, looks, noise, results, revisions, seeds, states\n"
        "results.results_of(['main', 'two-heads'])\n"
        "print([name for name in ('torch', 'mlflow', 'pandas', 'dvc.repo', 'celery', 'scipy') if name in sys.modules])"
    )
    assert project.run(sys.executable, "-c", program, PYTHONPATH=str(ROOT / "src")) == "[]\n"
