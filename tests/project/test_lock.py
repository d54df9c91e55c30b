"""Tests of the fast parser for dvc.lock and params.yaml: it reads what DVC's own parser reads."""

import io

import pytest
from ruamel.yaml import YAML

from bukva.project.lock import StageRecord, parse_lock, parse_yaml
from tests.support.imports import ROOT

VALUES = """
    1e-05 0.0003 3e-4 1E5 1e3 .5 -.5e-3 5. 1. -0 +7 00 010 '010' 089 0o17 0x1F -0x1f 0b11 1_000 0_7 12:30 '12:30'
    1:20.5 190:20:30 on 'on' off yes no y n true True TRUE 'true' false null Null ~ '' .inf -.inf nan = - 1e-3.4
    2026-11-27 [1,on,010] {a:1} word "\\n" "\\t" "\\x01" '#' 'a:b'
"""


def by_dvc(text):
    return YAML(typ="safe").load(text)


@pytest.mark.parametrize("value", VALUES.split())
def test_a_value_and_its_type_are_those_of_dvcs_parser(value):
    text = f"a: {value}\n"
    try:
        expected = by_dvc(text)
    except Exception:
        expected = {}
    assert repr(parse_yaml(text)) == repr(expected)


def test_what_dvc_writes_is_read_back():
    for value in (1e-05, 0.0003, 1e16, 3, "on", "010", "yes", "12:30", None, True, "", "a: b", "\n", "ж"):
        yaml, written = YAML(), io.StringIO()
        yaml.dump({"a": value, "list": [value]}, written)
        assert repr(parse_yaml(written.getvalue())) == repr({"a": value, "list": [value]})
    for name in ("dvc.yaml", "params.yaml", "dvc.lock"):
        text = (ROOT / name).read_text(encoding="utf-8")
        assert repr(parse_yaml(text)) == repr(by_dvc(text))


@pytest.mark.parametrize(
    "text",
    ["", "[1]\n", "a: 'b\n", "a: 1\na: 2\n", "a: {b: 1, b: 2}\n", "a: !!python/object/apply:os.system [ls]\n"],
    ids=["empty", "list", "open quote", "two of one key", "two of one key, nested", "code"],
)
def test_a_text_that_dvc_refuses_or_that_is_no_mapping_is_empty(text):
    assert parse_yaml(text) == {}


@pytest.mark.parametrize("more", ["", "datasets:\n- name: a\n  type: dvc\n", "# by hand\n"])
def test_the_stages_of_a_lock_that_are_read_one_by_one_are_those_of_the_whole_file(more):
    text = """\
schema: '2.0'
stages:
  'a b':
    cmd: |-
      one

      two
    deps:
    - path: x
      md5: '1'
    params:
      params.yaml:
        model:
          n_head: 4
          dropout: 1e-05
        flag: on
  c:
    cmd: a long command
      in two lines
    outs:
    - path: y
      md5: 2a.dir
"""
    records = parse_lock(text + more)
    params = {"model.n_head": 4, "model.dropout": 1e-05, "flag": "on"}
    assert records == {"a b": StageRecord(params, {"x": "1"}, {}), "c": StageRecord({}, {}, {"y": "2a.dir"})}
    assert list(records) == list(by_dvc(text)["stages"])
