"""The commands of docs/ in order, as printed, in a small project with a short baseline.

A page runs in a copy of the project. Its experiments have the names that the pages use.
"""

import re
import shutil

import pytest

from bukva.project.revisions import experiment_ref
from tests.support.imports import ROOT
from tests.support.project import Project

pytestmark = pytest.mark.nightly

PAGES = sorted((ROOT / "docs").glob("*.md"))
BLOCK = re.compile(r"^```sh\n((?:(?!```).*\n)*)```$|((?:^    .*\n)+)", re.MULTILINE)
INDENTED = re.compile(r"(?:[A-Z_]+=\S* )*(?:bukva|dvc|make|git|python|mlflow) ")  # other indented lines are no commands
NOT_HERE = {
    "dvc exp run -S download.corpus=huggingface": "needs the network, and names to fill in",
    "dvc exp run -S download.corpus=ruslit": "needs the network, and trains for hours",
    "dvc exp run -S download.corpus=tinyshakespeare": "needs the network",
    "dvc exp run -S download.corpus=url": "needs the network, and an address to fill in",
    "PYTHONPATH=src python -m tests.": "takes an hour; tests/compare runs it with fewer repetitions",
    "createdb": "needs PostgreSQL",
    "mlflow server": "needs PostgreSQL; tests/tracking runs servers",
    "export MLFLOW_TRACKING_URI=http": "needs that server",
    "curl -u admin": "needs a server with accounts",
    "bukva push && git push": "needs a remote; the page about sharing pushes to one",
    "cd /shared": "needs a cluster; make chaos has one of three machines on this one",
    "make cluster && make repro": "makes the environment that runs this test",
    "export RAY_AUTH_MODE": "needs a cluster",
    "ray ": "needs a cluster",
    "bukva sweep run --address": "needs a cluster",
    "export PET_": "needs a second machine; tests/dvc trains with two processes",
    "PET_NODE_RANK": "needs a second machine",
    "dvc exp pull": "needs a second clone; tests/dvc/test_story.py has one",
    "bukva ui": "it serves until Ctrl-C; tests/dvc/test_playground.py",
    "mlflow models serve": "it serves until Ctrl-C; tests/nightly/test_wheel.py",
    "curl localhost": "needs that server",
    "tail -f": "it runs until Ctrl-C",
    "ip ": "needs root",
    "for end in a b": "needs root",
}
STATUSES = {"--exit-code": (0, 3, 4), "bukva judge": (0, 3, 4)}
SECONDS = 1200
SHORT = {"model": {"n_embd": 32, "n_head": 4}, "train_gpt": {"n_steps": 40, "eval_every": 4}}
EXPERIMENTS = {"swim-loft": ["NAME", "A"], "mild-fowl": ["B"]}  # and other names of each


def blocks(page):
    for fenced, indented in BLOCK.findall(page.read_text(encoding="utf-8").replace("\\\n", " ")):
        lines = [re.sub(r"\s+#.*", "", line).strip() for line in (fenced or indented).splitlines()]
        if found := [line for line in lines if line and (fenced or INDENTED.match(line))]:
            yield found


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A project with its baseline, experiments, and what the pages tell the user to have."""
    project = Project(tmp_path_factory.mktemp("docs") / "bukva")
    project.folder.mkdir()
    project.create()
    for name in ("books", "code"):
        shutil.copytree(project.folder / "data" / "sample", project.folder / "path/to" / name)
    shutil.copytree(project.folder / "path/to/books", project.folder / "path/to/your/books")
    shutil.copytree(project.folder / "path/to/books", project.folder / "Книги/Война и мир")
    (project.folder / "path/to/code/more.py").write_text("print('sea')\n" * 200)
    project.set(SHORT)
    project.commit("short")
    project.run("dvc", "repro")
    project.bukva("baseline")
    head = project.run("git", "rev-parse", "HEAD").strip()
    for seed, (name, others) in enumerate(EXPERIMENTS.items()):
        project.run("dvc", "exp", "run", "--name", name, "-S", f"train_gpt.seed={seed}")
        for other in others:
            project.run("git", "update-ref", experiment_ref(head, other), experiment_ref(head, name))
    project.run("dvc", "exp", "apply", "baseline")
    return project


def test_every_command_that_is_not_run_is_in_a_page_and_most_are_run():
    every = [command for page in PAGES for block in blocks(page) for command in block]
    assert not [start for start in NOT_HERE if not any(command.startswith(start) for command in every)]
    assert sum(not command.startswith(tuple(NOT_HERE)) for command in every) > 30


@pytest.mark.parametrize("page", [page for page in PAGES if any(blocks(page))], ids=lambda page: page.stem)
def test_the_commands_of_a_page_work_as_printed(page, made, tmp_path):
    project = made.copy_to(tmp_path / "bukva")
    project.bukva("sync")
    project.run("git", "init", "-q", "--bare", str(tmp_path / "origin"))
    project.run("git", "remote", "add", "origin", str(tmp_path / "origin"))
    project.run("git", "push", "-q", "origin", "HEAD:main")
    substitutes = {
        "ssh://user@host/path": str(tmp_path / "remote"),
        "sqlite:////path/to/project": f"sqlite:///{project.folder}",
        "--trials 20": "--trials 3",
        "$(bukva recipe ngrams)": "$(bukva recipe ngrams) -S train_gpt.n_steps=40 -S train_gpt.eval_every=4",
    }
    for block in blocks(page):
        if page.stem == "text":  # it says so
            project.run("dvc", "exp", "apply", "baseline")
        run_block([command for command in block if not command.startswith(tuple(NOT_HERE))], project, substitutes)
    project.wait_for_background()  # DVC's queue


def run_block(commands, project, substitutes):
    """Run commands in order; what one exports is for the next ones."""
    exports = []
    for command in commands:
        for ours, theirs in substitutes.items():
            command = command.replace(ours, theirs)
        print(f"{project.folder.name}$ {command}", flush=True)
        if command.startswith("export "):
            exports.append(command)
            continue
        running = project.start("bash", "-c", "; ".join([*exports, command]), PYTHONPATH="src")
        status = running.wait(SECONDS)
        print(running.printed, flush=True)
        expected = next((found for option, found in STATUSES.items() if option in command), (0,))
        assert status in expected, f"{command} exited with {status}:\n{running.printed}"
        assert "Traceback" not in running.printed, command
