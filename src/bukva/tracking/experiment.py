"""Describe the experiment to which the running stage belongs: name, commit, parameters, edited code and datasets."""

import contextlib
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from bukva.core.errors import BukvaError, redact_params
from bukva.core.files import dvc_variable, read_json, sha256
from bukva.core.messages import shorten
from bukva.core.params import flatten
from bukva.core.schema import Params
from bukva.project import baseline
from bukva.project.baseline import edited_files, undo_command
from bukva.project.lock import digest, parse_yaml, read_lock
from bukva.project.revisions import UNDO_PREFIX, file_at, head, head_or_empty
from bukva.project.stages import paths, stages

NAME, BASELINE = "DVC_EXP_NAME", "DVC_EXP_BASELINE_REV"  # DVC sets both for `dvc exp run`, and neither for `dvc repro`
# splits that a stage reads, by kind of stage
READ_BY: dict[str, tuple[str, ...]] = {"training": ("train", "val"), "report": ("train", "val", "test")}
MAX_NAMED = 3  # maximum number of changes in a label


def this_experiment(params: Params) -> dict[str, Any]:
    """Describe the experiment to which the running stage belongs.

    experiment: name of the DVC experiment; that of a `dvc repro` is made from the commit.
    shown, label: name for users, and that of the run in MLflow, such as `bumpy-vara: n_head=8`.
    commit: commit from which the experiment started, or "" before the first commit of the project.
    params: all parameters, by dotted key such as `model.n_head`.
    changed: parameters that differ from `commit`, such as `model.n_head=8`.
    edited: folders of code or text that differ from `commit`.
    key: identifier. The name is not enough, because DVC can give it to a later experiment.
    """
    commit, flat = dvc_variable(BASELINE) or head_or_empty(), flatten(redact_params(params.model_dump()))
    committed = flatten(parse_yaml(file_at(commit, "params.yaml").decode(errors="replace")))
    edited = _edited(params) if commit else {}
    name = name_of_repro(commit)
    if commit and (flat != committed or edited):
        name = f"{name}-{digest([flat, edited] if edited else flat)[:8]}"
    name = dvc_variable(NAME) or name
    shown = baseline.NAME if commit and name == name_of_repro(commit) else name
    keys = [key for key, value in flat.items() if key in committed and committed[key] != value]
    changed = [f"{key}={shorten(flat[key])}" for key in keys]
    parts = [Path(path).parts for path in edited]
    folders = list(dict.fromkeys("/".join(each[: 3 if each[0] == "src" else 2]) for each in parts))
    return {
        "experiment": name,
        "shown": shown,
        "label": _label(shown, flat, changed, folders),
        "commit": commit,
        "params": flat,
        "changed": changed,
        "edited": folders,
        "key": digest([name, commit, flat, *([edited] if edited else [])]),
    }


def _label(shown: str, params: Iterable[str], changed: Sequence[str], folders: Sequence[str]) -> str:
    n_sections = Counter(key.partition(".")[2] for key in params)  # in which a key occurs
    changes = []
    for change in changed:
        brief = change.partition(".")[2]
        is_clear = n_sections[brief.partition("=")[0]] == 1
        changes.append(brief if is_clear else change.removeprefix("train_"))
    changes += [f"edited {Path(folder).name}" for folder in folders]
    if len(changes) > MAX_NAMED:  # MLflow cuts long names
        changes[MAX_NAMED:] = [f"{len(changes) - MAX_NAMED} more"]
    return f"{shown}: {', '.join(changes)}" if changes else shown


def _edited(params: Params) -> dict[str, str]:
    texts = {"${download.path}": params.download.path, "${clean.file}": params.clean.file}
    deps = {str(texts.get(dep, dep)) for stage in stages().values() for dep in stage.deps}
    with contextlib.suppress(BukvaError):  # the stage does not run in a git repository
        files = edited_files(deps - set(paths().values()), Path.cwd())
        return {path: sha256(Path(path)) if Path(path).is_file() else "" for path in files}
    return {}


def name_of_repro(commit: str) -> str:
    """Return the experiment name for a plain `dvc repro`, such as `repro-1a2b3c4`. `commit` may be ""."""
    return f"repro-{commit[:7] or 'uncommitted'}"


def print_uncommitted(params: Params) -> None:
    """Print the uncommitted changes of params.yaml, and the command that restores the file.

    A queued experiment prints nothing, because no other experiment starts from its copy of the project.
    """
    head()  # raises RefusedError if another user owns the folder
    experiment = this_experiment(params)
    if experiment["changed"] and (command := undo_command()):
        print(
            f"params.yaml differs from commit {experiment['commit'][:7]}: {', '.join(experiment['changed'])}. The next "
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
