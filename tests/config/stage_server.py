"""Run stages with changed parameters in processes of their own, and return how each run ended.

    with StageServer(folder) as server:
        outcome = server.run({"model.n_head": 2}, ["train_gpt", "sample"])

This file is also the program of the server. It runs all stages once, so that whatever is loaded late is loaded, then
forks one process per case in a copy of a small project, so a case that hangs, dies or exhausts its memory is noticed
and does not disturb the others.
"""

import contextlib
import copy
import importlib
import inspect
import io
import json
import os
import queue
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

from ruamel.yaml import YAML

from bukva.base.errors import BukvaError
from bukva.config.load import PARAMS
from bukva.pipeline.stages import paths, recorded_stages
from chaos.project import SMALL

ROOT = Path(__file__).resolve().parents[2]
CASE_SECONDS = 180  # a hang; the slowest case takes 5, and much more when other programs need the cores
CASE_BYTES = 16 << 30  # so that a case that fails does not exhaust the machine
N_PROCESSES = 2
SCRATCH = "/dev/shm" if Path("/dev/shm").is_dir() else None  # in memory: nothing waits for a disk

SECTIONS = YAML(typ="safe").load((ROOT / PARAMS).read_text(encoding="utf-8"))
SECTIONS |= {section: SECTIONS[section] | values for section, values in SMALL.items()}
SECTIONS["download"]["path"], SECTIONS["compute"]["device"] = "book.txt", "cpu"

ATTENTION = "attention"  # `bukva attention`, which reads the section evaluate as a stage does
STAGES = [*(stage.module for stage in recorded_stages().values()), ATTENTION]


def with_changes(changes):
    """The sections with other values; `changes` are values by section.key."""
    sections = copy.deepcopy(SECTIONS)
    for name, value in changes.items():
        section, key = name.split(".")
        sections[section][key] = value
    return sections


class StageServer:
    """Two processes that run cases in copies of one project, in which all stages have run."""

    def __init__(self, project):
        """Write a project with a text of 3,000 characters into an empty folder, and run all stages."""
        for name in ("src", "stages", "rules", "dvc.yaml", "numerics.lock"):
            (project / name).symlink_to(ROOT / name)
        book = (ROOT / "data/sample/prose/skazki/sem_par_laptey.txt").read_text(encoding="utf-8")[:3000]
        (project / "book.txt").write_text(book, encoding="utf-8")
        (project / "empty.txt").touch()
        (project / "latin.txt").write_bytes("Café".encode("latin-1"))
        others = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("DVC_", "MLFLOW_", "BUKVA_", "GIT_"))
        }
        self.env = others | {
            "PYTHONPATH": f"{ROOT}:{ROOT / 'src'}",
            "OMP_NUM_THREADS": "1",
            "MPLBACKEND": "agg",
            "DVC_ROOT": str(project),
            "GIT_CEILING_DIRECTORIES": str(project.parent),
        }
        self.project = project
        self.idle = queue.SimpleQueue()

    def __enter__(self):
        program = [sys.executable, __file__, str(self.project)]
        made = subprocess.run([*program, "make"], env=self.env, capture_output=True, text=True, cwd=self.project)
        assert json.loads(made.stdout.splitlines()[-1]) == {}, made.stderr + made.stdout
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "bufsize": 1}
        self.processes = [subprocess.Popen(program, env=self.env, **pipes) for _ in range(N_PROCESSES)]
        for process in self.processes:
            self.idle.put(process)
        return self

    def __exit__(self, *_):
        for process in self.processes:
            with process:
                process.stdin.close()

    def run(self, changes, stages):
        """Run stages with changed values, in whichever process is idle; may be called by several threads.

        Returns:
            {} if all stages succeed, {"rejected": sentence} if one rejects its input, {"failed": why} otherwise.
        """
        process = self.idle.get()
        print(json.dumps([changes, stages]), file=process.stdin, flush=True)
        outcome = json.loads(process.stdout.readline())
        self.idle.put(process)
        return outcome


# ---- the program


def run_here(changes, stages):
    """Run stages in the current folder; the outcome is that of StageServer.run."""
    text = json.dumps(with_changes(changes), ensure_ascii=False)  # JSON is YAML, and keeps every number
    PARAMS.write_text(text, encoding="utf-8")
    try:
        for stage in stages:
            if stage == ATTENTION:
                importlib.import_module("bukva.cli.studies").attention()
            else:
                main = importlib.import_module(f"stages.{stage}").main
                main(*(Path(paths()[name]) for name in inspect.signature(main).parameters))
    except BukvaError as error:
        return {"rejected": str(error)}
    except BaseException:
        return {"failed": traceback.format_exc()}
    return {}


def run_in_fork(changes, stages, template):
    """The same in a process and a copy of the project; a hang or the death of the process is a failure."""
    with copied(template) as folder, tempfile.TemporaryFile("w+") as answer:
        child = os.fork()
        if not child:
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                enter(folder)
                resource.setrlimit(resource.RLIMIT_AS, (CASE_BYTES, CASE_BYTES))
                json.dump(run_here(changes, stages), answer)
            answer.flush()
            os._exit(0)
        ends_at, done = time.monotonic() + CASE_SECONDS, 0
        while not done and time.monotonic() < ends_at:
            time.sleep(0.005)
            done, status = os.waitpid(child, os.WNOHANG)
        if not done:
            os.kill(child, 9)
            os.waitpid(child, 0)
            return {"failed": f"hangs: not done in {CASE_SECONDS} s"}
        answer.seek(0)
        text = answer.read()
        return json.loads(text) if text and not status else {"failed": f"died with status {status}"}


@contextlib.contextmanager
def copied(template):
    """A copy of a project, for as long as the block runs."""
    with tempfile.TemporaryDirectory(dir=SCRATCH) as folder:
        shutil.copytree(template, folder, symlinks=True, dirs_exist_ok=True)
        yield folder


def enter(folder):
    """Make this the folder of the pipeline."""
    os.chdir(folder)
    os.environ["DVC_ROOT"] = folder


def draw_without_pixels(figure, path, **_):
    """Draw every artist of a figure without a picture, and unplaced: layout takes a third of the time of all stages."""
    figure.set_layout_engine("none")
    figure.draw_without_rendering()
    path.touch()


def serve(project):
    """Read cases from stdin and write outcomes to stdout, one line of JSON each."""
    import torch

    from bukva.corpus.sources import fetching

    torch.set_num_threads(1)
    fetching.BACKOFF_SECONDS = 0
    importlib.import_module("matplotlib.figure").Figure.savefig = draw_without_pixels
    sys.executable = "/nowhere/python"  # so that no second process starts beside a training
    with copied(project) as folder, contextlib.redirect_stdout(sys.stderr):
        enter(folder)
        assert run_here({}, STAGES) == {}
        os.chdir(project)
    for line in sys.stdin:
        changes, stages = json.loads(line)
        print(json.dumps(run_in_fork(changes, stages, project)), flush=True)


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    if "make" in sys.argv:
        sys.executable = "/nowhere/python"
        with contextlib.redirect_stdout(sys.stderr):
            outcome = run_here({}, STAGES)
        print(json.dumps(outcome))
    else:
        serve(folder)
