"""Rows of the pipeline: DVC itself, in a clone of the last commit."""

import os
import sys
from pathlib import Path

from bench.corpora import fetched
from bench.measure import ROOT, Outcome, command
from bench.rows import Goal, Measured, Row, Side
from bukva.config.load import read_yaml
from bukva.core.errors import BukvaError
from bukva.core.files import read_json, resolve

DATA_RUNS = 3
IDLE_RUNS = 3
START_RUNS = 5

# Stage split until it reads its first file, after imports, command line, parameters and journal.
START = """\
import sys
from stages import split
split.read_shares = lambda folder: sys.exit()
split.stage.run(split.main)
"""


def data(scratch: Path) -> Measured:
    """The four stages of the text, each time in a clone without a cache.

    Raises:
        BukvaError: there is no mirror, or it does not have the archive of RusLit.
    """
    if "BUKVA_MIRROR" not in os.environ:
        raise BukvaError(f"no mirror to download from; set BUKVA_MIRROR to a folder that contains {_archive()}.")
    fetched(scratch, "ruslit")  # its sentence is clearer than that of DVC
    return _seconds([_data(scratch, run) for run in range(DATA_RUNS)])


def repro(scratch: Path) -> Measured:
    """The whole pipeline on the embedded corpus, and the score of its GPT."""
    clone, outcome = _reproduced(scratch)
    measured = _seconds([outcome])
    scores = read_json(clone / "reports/scores.json")
    loss = scores["gpt"]["test"]["bits_per_char"]
    gain = scores["baselines"]["test"]["bigram_exact"] - loss
    return Measured({**measured.scores, "loss on test": loss, "better than bigram": gain}, measured.ours)


def idle(scratch: Path) -> Measured:
    """The same pipeline again, with nothing to do."""
    clone, _ = _reproduced(scratch)
    return _seconds([_dvc(clone, "repro") for _ in range(IDLE_RUNS)])


def start(scratch: Path) -> Measured:
    """A stage that does not import torch, until its work begins."""
    clone = _clone(scratch / "start")
    environment = {**_environment(scratch), "PYTHONPATH": "src"}
    words = [sys.executable, "-c", START]
    return _seconds([command(words, clone, environment) for _ in range(START_RUNS)])


def _seconds(outcomes: list[Outcome]) -> Measured:
    side = Side.of(outcomes)
    return Measured({"seconds": side.median}, side)


def _archive() -> str:
    """The file name of RusLit in a mirror."""
    return str(read_yaml(ROOT / "src/bukva/corpus/sources/sources.yaml")["ruslit"]["file"])


def _data(scratch: Path, run: int) -> Outcome:
    from ruamel.yaml import YAML

    clone = _clone(scratch / f"data-{run}")
    yaml, file = YAML(), clone / "params.yaml"
    params = yaml.load(file)
    params["download"]["corpus"] = "ruslit"
    yaml.dump(params, file)
    return _dvc(clone, "repro", "split")


_reproductions: dict[Path, Outcome] = {}


def _reproduced(scratch: Path) -> tuple[Path, Outcome]:
    """A clone in which the pipeline has run, and its cost; made once in a run."""
    clone = scratch / "repro"
    if clone not in _reproductions:
        _reproductions[clone] = _dvc(_clone(clone), "repro", "-f")
    return clone, _reproductions[clone]


def _clone(folder: Path) -> Path:
    """A clone of the last commit; uncommitted changes are not measured."""
    command(["git", "clone", "--quiet", "--local", str(ROOT), str(folder)])
    return folder


def _dvc(clone: Path, *arguments: str) -> Outcome:
    return command([str(Path(sys.executable).with_name("dvc")), *arguments], clone, _environment(clone.parent))


def _environment(scratch: Path) -> dict[str, str]:
    """The environment of this process without the variables that point DVC and MLflow to another project."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("DVC_", "MLFLOW_", "PYTHON")) and name != "BUKVA_MIRROR"
    }
    return {
        **kept,
        **_mirror(),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "DVC_SITE_CACHE_DIR": str(scratch / "site-cache"),
    }


def _mirror() -> dict[str, str]:
    """BUKVA_MIRROR; a folder becomes an absolute path, because the clone is in another folder."""
    mirror = os.environ.get("BUKVA_MIRROR")
    if mirror is None:
        return {}
    return {"BUKVA_MIRROR": mirror if "://" in mirror else str(resolve(mirror).absolute())}


ROWS = (
    Row(
        "data",
        "download to split on RusLit from a mirror: four stages, including tracking",
        "s",
        (Goal("seconds", "s", 20, 12, less_is_better=True),),
        data,
    ),
    Row(
        "repro",
        "dvc repro -f on the embedded corpus, and by how much its GPT is better than the exact bigram on test",
        "s",
        (
            Goal("seconds", "s", 100, 60, less_is_better=True),
            Goal("loss on test", "bits", 2.36, 2.28, less_is_better=True),
            Goal("better than bigram", "bits", 0, 1.0),
        ),
        repro,
    ),
    Row("idle", "dvc repro with nothing to do", "s", (Goal("seconds", "s", 2, less_is_better=True),), idle),
    Row(
        "start",
        "a stage without torch, until its work begins",
        "s",
        (Goal("seconds", "s", 1.5, less_is_better=True),),
        start,
    ),
)
