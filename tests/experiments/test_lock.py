"""dvc.lock, and the stages that a stage needs."""

import io

import pytest
import yaml
from imports import ROOT
from ruamel.yaml import YAML

from bukva.base.dotted import flatten
from bukva.experiments.lock import Entry, parse_lock, sources, upstream
from bukva.pipeline import lock

ENTRIES = {
    "raw": Entry({}, {"books": "1"}, {"data/raw": "2"}),
    "split": Entry({}, {"data/raw": "2", "code.py": "3"}, {"data/split": "4", "report.json": "5"}),
    "bigram": Entry({}, {"data/split": "4", "code.py": "3"}, {"data/bigram": "6"}),
    "gpt": Entry({}, {"data/split/train.npy": "7", "data/splits.txt": "8", "code.py": "3"}, {"data/gpt": "9"}),
    "evaluate": Entry({}, {"data/gpt": "9", "report.json": "5"}, {"scores": "0"}),
}


def test_a_dvc_lock_is_read_as_dvc_reads_it():
    text = (ROOT / "dvc.lock").read_text(encoding="utf-8")
    read = parse_lock(text)
    expected = YAML(typ="safe").load(text)["stages"]
    assert list(read) == list(expected)
    for name, stage in expected.items():
        assert read[name].params == flatten(stage.get("params", {}).get("params.yaml", {}))
        assert read[name].deps == {dep["path"]: dep["md5"] for dep in stage.get("deps", [])}
        assert read[name].outs == {out["path"]: out["md5"] for out in stage.get("outs", [])}


def test_values_that_dvc_writes_are_read_back_with_their_type_of_yaml_1_2():
    plain = ["1e-05", "1e5", "1_000", "on", "yes", "12:30", "2026-11-21", "~", ".inf", "0x1f"]
    written = io.StringIO()
    YAML().dump({"values": [1e-05, 1e20, True, None, "буква: #", "on", *plain]}, written)  # as DVC writes dvc.lock
    for text in (written.getvalue(), *plain):
        assert repr(yaml.load(text, lock._loader())) == repr(YAML(typ="safe").load(text))


@pytest.mark.parametrize("text", ["a: [", "- 1", "stages: {a: {deps: [{}]}}"])
def test_another_file_is_no_dvc_lock(text):
    with pytest.raises(ValueError, match=r"not (a dvc\.lock|YAML): "):
        parse_lock(text)


def test_a_stage_needs_those_whose_outputs_it_reads_and_theirs():
    assert upstream("evaluate", ENTRIES) == ["raw", "split", "gpt", "evaluate"]
    assert upstream("bigram", ENTRIES) == ["raw", "split", "bigram"]


def test_a_file_that_no_stage_makes_is_a_source():
    assert sources("gpt", ENTRIES) == {"data/splits.txt": "8", "code.py": "3"}
