"""dvc.lock, and the stages that a stage needs."""

import io

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from imports import ROOT
from ruamel.yaml import YAML

from bukva.base.dotted import flatten
from bukva.experiments.lock import Entry, maker_of, parse_lock, sources, upstream
from bukva.pipeline import lock

LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=11)
TREES = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner))

ENTRIES = {
    "raw": Entry({}, {"books": "1"}, {"data/raw": "2"}),
    "split": Entry({}, {"data/raw": "2", "code.py": "3"}, {"data/split": "4", "report.json": "5"}),
    "bigram": Entry({}, {"data/split": "4", "code.py": "3"}, {"data/bigram": "6"}),
    "gpt": Entry({}, {"data/split/train.npy": "7", "data/splits.txt": "8", "code.py": "3"}, {"data/gpt": "9"}),
    "evaluate": Entry({}, {"data/gpt": "9", "report.json": "5"}, {"scores": "0"}),
}


@pytest.fixture(scope="module")
def text():
    return (ROOT / "dvc.lock").read_text(encoding="utf-8")


def test_a_dvc_lock_is_read_as_dvc_reads_it(text):
    read = parse_lock(text)
    expected = YAML(typ="safe").load(text)["stages"]
    assert list(read) == list(expected)
    for name, stage in expected.items():
        assert read[name].params == flatten(stage.get("params", {}).get("params.yaml", {}))
        assert read[name].deps == {dep["path"]: dep["md5"] for dep in stage.get("deps", [])}
        assert read[name].outs == {out["path"]: out["md5"] for out in stage.get("outs", [])}


@given(TREES)
def test_values_that_dvc_writes_are_read_back(tree):
    written = io.StringIO()
    YAML().dump({"value": tree}, written)  # as DVC writes dvc.lock
    expected = YAML(typ="safe").load(written.getvalue())
    assert repr(yaml.load(written.getvalue(), lock._loader())) == repr(expected)


@pytest.mark.parametrize("value", ["1e-05", "1e5", "1_000", "on", "yes", "12:30", "2026-11-21", "~", ".inf", "0x1f"])
def test_plain_values_have_their_type_of_yaml_1_2(value):
    assert repr(yaml.load(value, lock._loader())) == repr(YAML(typ="safe").load(value))


@pytest.mark.parametrize("text", ["a: [", "- 1", "stages: 3", "stages: {a: {deps: [{}]}}", "stages: {a: {deps: 1}}"])
def test_another_file_is_no_dvc_lock(text):
    with pytest.raises(ValueError, match=r"not (a dvc\.lock|YAML): "):
        parse_lock(text)


def test_a_stage_needs_those_whose_outputs_it_reads_and_theirs():
    assert upstream("evaluate", ENTRIES) == ["raw", "split", "gpt", "evaluate"]
    assert upstream("bigram", ENTRIES) == ["raw", "split", "bigram"]
    assert upstream("raw", ENTRIES) == ["raw"]


def test_a_file_is_made_by_a_stage_or_is_a_source():
    assert maker_of("data/split/train.npy", ENTRIES) == "split"
    assert maker_of("data/splits.txt", ENTRIES) is None
    assert sources("gpt", ENTRIES) == {"data/splits.txt": "8", "code.py": "3"}
