"""Test that the fingerprint of a training changes if, and only if, its result could change."""

import shutil
from pathlib import Path

import pytest

from bukva.core.params import read_params
from bukva.project.lock import digest
from bukva.project.stages import differences, fingerprint

ROOT = Path(__file__).parents[2]
STAGE = "train-gpt"


@pytest.fixture
def project(tmp_path, monkeypatch):
    """Copy the files of the project, with small data."""
    for name in ("dvc.yaml", "tests/params.yaml", "numerics.lock", "src", "stages"):
        source = ROOT / name
        copy = shutil.copytree if source.is_dir() else shutil.copy
        copy(source, tmp_path / source.name)
    for name in ("data/ngrams/counts.npy", "data/split/train.npy", "data/split/val.npy", "data/tokens/vocab.json"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def now():
    return digest_of(read_params())


def digest_of(params, stage=STAGE):
    return digest(fingerprint(stage, params))


def edit(file, text="\n# another\n"):
    file.write_text(file.read_text(encoding="utf-8") + text, encoding="utf-8")


def test_another_text_line_of_code_or_pinned_package_changes_the_digest(project):
    digests = [now(), now()]
    assert digests[0] == digests[1]
    for file in (
        "data/split/train.npy", "data/split/val.npy", "data/tokens/vocab.json", "src/bukva/backends/cpu/sublayers.py",
        "src/bukva/training/run.py", "stages/train_gpt.py", "numerics.lock",
    ):  # fmt: skip
        edit(project / file)
        digests.append(now())
    (project / "data/split/val.npy").rename(project / "data/split/test.npy")
    assert len({*digests, now()}) == len(digests)


def test_what_cannot_change_the_model_keeps_the_digest(project):
    before = now()
    for file in (
        "src/bukva/tracking/journal.py", "src/bukva/report/charts.py", "src/bukva/core/schema.py", "stages/sample.py",
    ):  # fmt: skip
        edit(project / file)
    (project / "src/bukva/models/__pycache__").mkdir(exist_ok=True)
    (project / "src/bukva/models/__pycache__/gpt.pyc").write_bytes(b"any")
    (project / "data/split/.part").write_bytes(b"any")
    assert now() == before


def test_a_parameter_of_the_stage_changes_the_digest_and_one_of_another_stage_does_not(project):
    before, params = now(), read_params()
    other = params.model_copy(update={"model": params.model.model_copy(update={"n_head": 8})})
    assert digest_of(other) != before
    sample = params.model_copy(update={"sample": params.sample.model_copy(update={"seed": 8})})
    assert digest_of(sample) == before
    assert digest_of(params, "train-bigram") != before


def test_differences_are_named_and_many_are_counted():
    before = {"model.n_head": 4, "model.bias": False, "src/bukva/models/window_rule.py": "aa", "a.b": 1, "c.d": 2}
    assert differences(before, before) == ""
    assert differences(before, before | {"model.n_head": 8}) == "model.n_head was 4 and is 8"
    now = {"model.n_head": 8, "model.bias": False, "src/bukva/models/window_rule.py": "bb", "numerics.lock": "cc"}
    assert differences(before, now) == (
        "a.b was 1 and is None, c.d was 2 and is None, model.n_head was 4 and is 8, 2 more"
    )


def test_a_gpt_without_n_grams_does_not_need_their_counts(project):
    before, params = now(), read_params()
    with_ngrams = params.model_copy(update={"model": params.model.model_copy(update={"ngrams": "input"})})
    counted = digest_of(with_ngrams)
    edit(project / "data/ngrams/counts.npy")
    assert digest_of(with_ngrams) != counted
    shutil.rmtree(project / "data/ngrams")
    assert now() == before
