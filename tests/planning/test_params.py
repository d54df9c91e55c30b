"""A proposal becomes lines of params.yaml."""

import re

import pytest
from plans import RAW, TEXT, plan

from bukva.base.errors import BukvaError
from bukva.config.load import PARAMS, read_params
from bukva.planning.params import differences, merge, write


@pytest.fixture
def file(tmp_path):
    """A copy of params.yaml."""
    copy = tmp_path / PARAMS
    copy.write_text(TEXT, encoding="utf-8")
    return copy


def test_writing_changes_the_lines_of_these_values_and_no_other_byte(file):
    values = plan().values()
    write(values, file)
    wanted = TEXT
    for section, keys in values.items():
        head, found, rest = wanted.partition(f"\n{section}:\n")
        for key, value in keys.items():
            rest = re.sub(rf"(?m)^  {key}: .*$", f"  {key}: {value}", rest, count=1)
        wanted = head + found + rest
    assert file.read_text(encoding="utf-8") == wanted != TEXT
    assert read_params(file).model_dump() == merge(RAW, values)


def test_writing_values_that_the_file_has_leaves_it_alone(file):
    odd = TEXT.replace("  n_head: 4", "  n_head:   0x4  # four").replace("\n", "\r\n").encode()  # not as DVC writes it
    file.write_bytes(odd)
    write({"model": {"n_head": 4}}, file)
    assert file.read_bytes() == odd


def test_invalid_values_are_not_written(file):
    with pytest.raises(BukvaError, match="warmup_steps: 20 is more than n_steps 10"):
        write({"train_gpt": {"n_steps": 10, "eval_every": 10, "warmup_steps": 20}}, file)
    assert file.read_text(encoding="utf-8") == TEXT


def test_only_values_that_differ_are_changes():
    changes = list(differences(RAW, {"model": {"n_embd": 192, "n_head": RAW["model"]["n_head"]}}))
    assert changes == [("model.n_embd", RAW["model"]["n_embd"], 192)]
