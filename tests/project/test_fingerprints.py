"""Test that the fingerprint of a training changes if, and only if, its result could change."""

import shutil

import pytest

from bukva.core.params import read_params
from bukva.project.stages import differences, fingerprint
from tests.support.imports import ROOT, SHIPPED


@pytest.fixture
def project(tmp_path, monkeypatch):
    for source in (SHIPPED, *(ROOT / name for name in ("dvc.yaml", "numerics.lock", "src", "stages"))):
        copy = shutil.copytree if source.is_dir() else shutil.copy
        copy(source, tmp_path / source.name)
    for name in ("data/ngrams/counts.npy", "data/split/train.npy", "data/split/val.npy", "data/tokens/vocab.json"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def now(stage="train-gpt", section="model", **changes):
    """Return the fingerprint of a stage, with changes of the parameters in one section."""
    params = read_params()
    update = {section: getattr(params, section).model_copy(update=changes)}
    return fingerprint(stage, params.model_copy(update=update))


def edit(file, text="\n# another\n"):
    file.write_text(file.read_text(encoding="utf-8") + text, encoding="utf-8")


def test_another_text_line_of_code_or_pinned_package_changes_the_fingerprint(project):
    made = [now()]
    assert now() == made[0]
    for file in (
        "data/split/train.npy", "data/split/val.npy", "data/tokens/vocab.json", "src/bukva/backends/cpu/sublayers.py",
        "src/bukva/training/run.py", "stages/train_gpt.py", "numerics.lock",
    ):  # fmt: skip
        edit(project / file)
        made.append(now())
    (project / "data/split/val.npy").rename(project / "data/split/test.npy")
    made.append(now())
    assert len(set(map(repr, made))) == len(made)


def test_what_cannot_change_the_model_keeps_the_fingerprint(project):
    before = now()
    for file in (
        "src/bukva/tracking/record.py", "src/bukva/report/charts.py", "src/bukva/core/schema.py", "stages/sample.py",
    ):  # fmt: skip
        edit(project / file)
    (project / "src/bukva/models/__pycache__").mkdir(exist_ok=True)
    (project / "src/bukva/models/__pycache__/gpt.pyc").write_bytes(b"any")
    (project / "data/split/.part").write_bytes(b"any")
    assert now() == before


def test_parameters_of_the_stage_change_the_fingerprint_and_counts_only_if_the_gpt_has_n_grams(project):
    plain, counted = now(ngrams="none"), now(ngrams="input")
    assert len({*map(repr, (plain, counted, now(ngrams="none", n_head=8), now("train-bigram")))}) == 4
    assert now(section="sample", seed=8) == now()
    edit(project / "data/ngrams/counts.npy")
    assert now(ngrams="input") != counted
    shutil.rmtree(project / "data/ngrams")
    assert now(ngrams="none") == plain


def test_differences_are_named_and_many_are_counted():
    before = {"model.n_head": 4, "model.bias": False, "src/bukva/scoring/window_rule.py": "aa", "a.b": 1, "c.d": 2}
    assert differences(before, before) == ""
    assert differences(before, before | {"model.n_head": 8}) == "model.n_head was 4 and is 8"
    now = {"model.n_head": 8, "model.bias": False, "src/bukva/scoring/window_rule.py": "bb", "numerics.lock": "cc"}
    assert differences(before, now) == (
        "a.b was 1 and is None, c.d was 2 and is None, model.n_head was 4 and is 8, 2 more"
    )
