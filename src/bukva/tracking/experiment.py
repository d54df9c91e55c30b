"""Describe the experiment to which the running stage belongs: name, commit, parameters, edited code and datasets."""

import contextlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bukva.core.errors import BukvaError, redact_params
from bukva.core.files import dvc_variable, read_json, sha256
from bukva.core.messages import shorten
from bukva.core.params import flatten
from bukva.core.schema import Params
from bukva.core.words import few
from bukva.project import baseline
from bukva.project.baseline import edited_files, hidden_texts, lock_at, undo_command
from bukva.project.cache import digests
from bukva.project.lock import dependencies, digest, parse_yaml, read_lock
from bukva.project.revisions import UNDO_PREFIX, file_at, head, head_or_empty
from bukva.project.stages import paths, stages, trained_models

NAME, BASELINE = "DVC_EXP_NAME", "DVC_EXP_BASELINE_REV"  # DVC sets both for `dvc exp run`, and neither for `dvc repro`
STAGE = "DVC_STAGE"  # DVC sets it for every stage
READERS = "download", "clean"  # stages that read the user's files
# splits that a stage reads, by kind of stage
READ_BY: dict[str, tuple[str, ...]] = {"training": ("train", "val"), "report": ("train", "val", "test")}
MAIN = "gpt"  # model whose training the run of an experiment in MLflow describes
# what was known before a training that affects its rounding, by its names in numerics.json; backends add more to it
NUMERICS = "torch", "numpy", "processor", "precision", "threads"


@dataclass(frozen=True)
class Experiment:
    """The experiment to which a stage belongs.

    experiment: name of the DVC experiment; for a `dvc repro`, a name made from the commit.
    shown, label: name for users, and name of the run in MLflow, such as `bumpy-vara: n_head=8`.
    commit: commit from which the experiment started, or "" before the first commit of the project.
    params: all parameters, by dotted key such as `model.n_head`.
    changed: parameters that differ from `commit`, such as `model.n_head=8`.
    edited: folders of code, and texts, that differ from `commit`; all but the first few are counted.
    key: identifier. The name is not enough, because DVC can give it to a later experiment.
    """

    experiment: str
    shown: str
    label: str
    commit: str
    params: dict[str, Any]
    changed: list[str]
    edited: list[str]
    key: str


def this_experiment(params: Params) -> Experiment:
    """Describe the experiment to which the running stage belongs."""
    commit, flat = dvc_variable(BASELINE) or head_or_empty(), flatten(redact_params(params.model_dump()))
    committed = flatten(parse_yaml(file_at(commit, "params.yaml").decode(errors="replace")))
    texts = [flat[key] for key in baseline.TEXTS]
    edited = _edited(texts, commit) if commit else {}
    repro = name = name_of_repro(commit)
    if commit and (flat != committed or edited):
        name = f"{name}-{digest([flat, edited] if edited else flat)[:8]}"
    name = dvc_variable(NAME) or name
    shown = baseline.NAME if commit and name == repro else name
    changed = [f"{key}={shorten(flat[key])}" for key in flat if committed.get(key, flat[key]) != flat[key]]
    folders = list(dict.fromkeys(_folder(path, texts) for path in edited))
    return Experiment(
        experiment=name,
        shown=shown,
        label=_label(shown, flat, changed, folders),
        commit=commit,
        params=flat,
        changed=changed,
        edited=few(folders),  # databases refuse long tags and names of runs
        key=digest([name, commit, flat, *([edited] if edited else [])]),
    )


def _label(shown: str, params: Iterable[str], changed: Sequence[str], folders: Sequence[str]) -> str:
    n_sections = Counter(key.partition(".")[2] for key in params)  # in which a key occurs
    changes = []
    for change in changed:
        brief = change.partition(".")[2]
        is_clear = n_sections[brief.partition("=")[0]] == 1
        changes.append(brief if is_clear else change.removeprefix("train_"))
    changes += [f"edited {Path(folder).name}" for folder in folders]
    return f"{shown}: {', '.join(few(changes))}" if changes else shown


def _edited(texts: Sequence[str], commit: str) -> dict[str, str]:
    """Return a digest of each file of code or text that differs from `commit`, and of each text that git cannot see."""
    committed = dependencies(lock_at(commit))
    code = {dep for stage in stages().values() for dep in stage.deps if not dep.startswith("${")} - {*paths().values()}
    with contextlib.suppress(BukvaError):  # the stage does not run in a git repository
        hidden = hidden_texts(texts)
        edited = {
            path: sha256(Path(path)) if Path(path).is_file() else ""
            for path in edited_files(code.union(texts).difference(hidden))
        }
        is_recorded = not hidden or dvc_variable(STAGE) not in READERS  # DVC records a stage when it has ended
        now = dependencies(read_lock()) if is_recorded else digests(hidden)
        return edited | {text: now.get(text, "") for text in hidden if now.get(text) != committed.get(text)}
    return {}


def _folder(path: str, texts: Iterable[str]) -> str:
    """Return the text that contains an edited file, or the folder of code."""
    if text := next((text for text in texts if Path(path).is_relative_to(text)), ""):
        return text
    parts = Path(path).parts
    return "/".join(parts[: 3 if parts[0] == "src" else 2])


def numerics_of(facts: Mapping[str, str]) -> str:
    """Describe what affected the rounding of a training, such as "torch=2.13.0, ..., threads=2"."""
    return ", ".join(f"{name}={facts[name]}" for name in NUMERICS if name in facts)


def trained_numerics() -> str:
    """Return the numerics of the GPT in the checkout, or "" if there is none."""
    try:
        return numerics_of(read_json(trained_models()[MAIN].folder / "numerics.json"))
    except (OSError, ValueError):
        return ""


def name_of_repro(commit: str) -> str:
    """Return the experiment name for a plain `dvc repro`, such as `repro-1a2b3c4`. `commit` may be ""."""
    return f"repro-{commit[:7] or 'uncommitted'}"


def print_uncommitted(params: Params) -> None:
    """Print the uncommitted changes of params.yaml, and the command that restores the file.

    A queued experiment prints nothing, because no other experiment starts from its copy of the project.
    """
    head()  # raises RefusedError if another user owns the folder
    experiment = this_experiment(params)
    if experiment.changed and (command := undo_command()):
        print(
            f"params.yaml differs from commit {experiment.commit[:7]}: {', '.join(experiment.changed)}. The next "
            f"experiment will start from these values. {UNDO_PREFIX}{command}"
        )


def datasets(kind: str, params: Params) -> list[dict[str, Any]]:
    """Describe the splits that a stage of this kind reads, with DVC's digests; [] before stage split has run."""
    try:
        record = read_lock()["split"]
        md5, text = record.outs[paths()["split"]], record.deps.get(paths()["clean"], "")
        report = read_json(Path(paths()["split_report"]))
    except (OSError, ValueError, KeyError):  # the files do not exist yet, or DVC is writing them
        return []
    corpus = params.download.corpus
    shared = {"digest": md5, "text": text, "source": {"corpus": corpus, "path": paths()["split"]}}
    return [
        {"name": f"{corpus}/{split}", "split": split, "profile": {"characters": report[split]["chars"]}, **shared}
        for split in READ_BY.get(kind, ())
        if split in report
    ]
