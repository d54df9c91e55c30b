"""Machines of a cluster, on this one: each keeps its files in a folder of its own; all share an origin and a remote."""

import itertools
import shutil
from dataclasses import replace
from functools import cached_property
from pathlib import Path

import psutil

from bukva.cluster.job import DONE, Job, News
from bukva.cluster.origin import base_ref, result_ref
from chaos import store
from chaos.project import ROOT, Project
from chaos.running import Running

STEPS = list(range(0, 801, 200))  # at which a trial scores val
SETTINGS = "train_gpt.n_steps=800", "train_gpt.eval_every=200", "train_gpt.seed=3"
TOGETHER = *SETTINGS, "train_gpt.processes=2"
TRIAL = "try"
TRIAL_SECONDS = 300.0  # for a whole trial, on a busy machine


class Team:
    """A project with an origin and a DVC remote.

    Args:
        template: a project in which the pipeline was run.
        folder: for all files.
    """

    def __init__(self, template: Project, folder: Path) -> None:
        self.folder, self.origin, self.remote = folder, folder / "origin.git", folder / "remote"
        self.project = template.copy_to(folder / "driver" / "bukva")
        self.project.run("git", "init", "-q", "--bare", str(self.origin))
        self.project.run("git", "remote", "add", "origin", str(self.origin))
        self.project.run("dvc", "remote", "add", "-d", "team", str(self.remote))
        self.project.commit("remote")
        self.project.run("python", "-m", "bukva", "push", PYTHONPATH="src")
        self.commit = self.project.run("git", "rev-parse", "HEAD").strip()
        self.project.run("git", "push", "-q", "origin", f"HEAD:{base_ref(self.commit)}")
        self.cores = itertools.cycle(psutil.Process().cpu_affinity() or [0])
        self._locks: dict[tuple[str, ...], str] = {}

    # ---- trials

    def job(self, settings: tuple[str, ...] = SETTINGS, trial: str = TRIAL) -> Job:
        """The first try of a trial, on a core."""
        mlflow = {"MLFLOW_TRACKING_URI": f"sqlite:///{self.folder}/mlflow.db", "BUKVA_CHECKPOINT_SECONDS": "0.2"}
        return Job(trial, settings, self.commit, str(self.origin), "", 1, 1, mlflow)

    def start(self, node: str, job: Job) -> "Worker":
        """A worker on the machine of this name."""
        return Worker(self, node, job)

    def lock_of(self, trial: str = TRIAL) -> str:
        """dvc.lock of the result that the origin has; "" if it has none."""
        ref = result_ref(self.commit, trial)
        if not self.project.run("git", "ls-remote", str(self.origin), ref):
            return ""
        return self.project.run("git", f"--git-dir={self.origin}", "show", f"{ref}:dvc.lock")

    def uninterrupted(self, settings: tuple[str, ...] = SETTINGS) -> str:
        """dvc.lock of a trial that nothing disturbs."""
        if settings not in self._locks:
            self.forget()
            job = self.job(settings)
            alone = self.start("alone", replace(job, environment={"BUKVA_CHECKPOINT_SECONDS": "30"}))
            assert alone.wait() == DONE, alone.printed
            self._locks[settings] = self.lock_of()
        self.forget()
        return self._locks[settings]

    def forget(self) -> None:
        """Remove the results of all trials, and all that machines have, so that the next one computes everything."""
        self.project.wait_for_background()
        origin = "git", f"--git-dir={self.origin}"
        for ref in self.project.run(*origin, "for-each-ref", "--format=%(refname)", "refs/exps").split():
            self.project.run(*origin, "update-ref", "-d", ref)
        here = self.project.folder / ".bukva"
        for folder in (self.remote / "bukva", self.folder / "nodes", here / "cluster", here / "journals" / TRIAL):
            shutil.rmtree(folder, ignore_errors=True)
        for file in self.folder.glob("mlflow.db*"):
            file.unlink()

    def difference(self, settings: tuple[str, ...] = SETTINGS, trial: str = TRIAL) -> str:
        """How the result differs from that of a trial that nothing disturbs, and MLflow from what it should have."""
        found = self.lock_of(trial)
        if not found:
            return "the origin has no result"
        fault = self.mlflow_fault()
        return "its dvc.lock differs" if found != self.uninterrupted(settings) else fault

    def mlflow_fault(self, n_trials: int = 1) -> str:
        """What MLflow lacks, or has more than once."""
        runs = [run for run in store.training_runs(self.folder) if run["stage"] == "train-gpt"]
        expected = [{"stage": "train-gpt", "status": "FINISHED", "steps": STEPS}] * n_trials
        return "" if runs == expected else f"MLflow has {runs}"


class Worker:
    """A worker, and what it says."""

    def __init__(self, team: Team, node: str, job: Job) -> None:
        self._team, self.place = team, team.folder / "nodes" / node
        self.place.mkdir(parents=True, exist_ok=True)
        line = self.place / f"attempt-{job.attempt}.json"
        line.write_text(job.to_json() + "\n", encoding="utf-8")
        env = team.project.env | {"PYTHONPATH": str(ROOT / "src"), "BUKVA_NODE": str(self.place)}
        command = "sh", "-c", f"exec python -m bukva.cluster.work < {line}"
        self._running = Running(team.project, command, env)
        # a worker keeps to the first core of its machine, and each of these machines has one of its own
        psutil.Process(self._running.process.pid).cpu_affinity([next(team.cores)])

    @property
    def printed(self) -> str:
        """The text of its news."""
        news = map(News.from_json, self._running.printed.splitlines())
        return "\n".join(str(each.values.get("text", "")) for each in news)

    def wait(self) -> int:
        """Its exit status."""
        return self._running.wait(TRIAL_SECONDS)

    def reaches(self, words: str) -> bool:
        """Wait until it has said this; False if it ended before."""
        return self._running.reaches(lambda: words in self.printed)

    def sends_checkpoint(self) -> bool:
        """Wait until the remote has a checkpoint of a step after the first; False if it ended before."""
        return self._running.reaches(
            lambda: any(int(file.name.partition("-")[0]) for file in self._team.remote.rglob("*.safetensors"))
        )

    def terminate(self) -> None:
        """Send SIGTERM, as a driver does."""
        self._running.process.terminate()

    @cached_property
    def machine(self) -> list[psutil.Process]:
        """All processes of its machine, those included that outlive it."""
        root = psutil.Process(self._running.process.pid)
        own = [root, *root.children(recursive=True)]
        return own + [each for each in psutil.process_iter() if each not in own and self._is_here(each)]

    def lose(self) -> None:
        """End its machine at once."""
        for process in self.machine:
            if process.is_running():
                process.kill()
        self._running.process.wait()

    def _is_here(self, process: psutil.Process) -> bool:
        try:
            return Path(process.cwd()).is_relative_to(self.place)
        except (psutil.Error, OSError):
            return False
