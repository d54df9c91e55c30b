"""What the stages print of the text that they leave out: how much, and the parameter that decides."""

import importlib
import json
import re

import pytest
from imports import ROOT

from bukva.config.load import PARAMS, read_yaml
from bukva.core.errors import ParamsError
from bukva.core.files import write_text

TALES = sorted((ROOT / "data/sample/prose/skazki").glob("*.txt"))
WORK, OTHER = (tale.read_text(encoding="utf-8")[:4000] for tale in TALES[:2])


@pytest.fixture
def printed(tmp_path, monkeypatch, capsys):
    """A function that runs a stage in a project with these works and parameters, and returns what it printed."""
    for name in ("src", "stages", "rules", "dvc.yaml", "numerics.lock"):
        (tmp_path / name).symlink_to(ROOT / name)
    monkeypatch.setenv("DVC_ROOT", str(tmp_path))
    monkeypatch.chdir(tmp_path)

    def run(stage, works=(), **changes):
        for name, text in dict(works).items():
            write_text(tmp_path / "books" / name, text)
        sections = read_yaml(ROOT / PARAMS)
        sections["download"] |= {"corpus": "local", "path": "books"}
        for section, values in changes.items():
            sections[section] |= values
        PARAMS.write_text(json.dumps(sections), encoding="utf-8")
        importlib.import_module(f"stages.{stage}").main()
        return capsys.readouterr().out

    return run


def test_download_names_the_parameter_that_leaves_out_a_file(printed):
    said = printed("download", {"a.txt": WORK, "b.txt": " \n", "c.jpg": "x"})
    assert "download: 1 file(s) left out (download.strict), without text: books/b.txt (contains no text).\n" in said
    assert "download: 1 file(s) of other types not read (download.extensions names" in said


def test_a_prompt_outside_the_vocabulary_stops_each_training_before_it_begins(printed, monkeypatch):
    monkeypatch.setattr("stages.training.launch", pytest.fail)
    monkeypatch.setattr("stages.training.join", pytest.fail)
    for stage in ("download", "clean", "tokenize"):
        printed(stage, {"a.txt": WORK})
    for stage in ("train_bigram", "train_gpt"):
        with pytest.raises(ParamsError, match=r"sample\.prompts: 'Ωмега': not in the vocabulary of .*'Ω'"):
            printed(stage, sample={"prompts": ["Ωмега"]}, train_gpt={"processes": 2})


def test_clean_says_how_much_each_rule_removed(printed):
    printed("download", {"a.txt": "Раз,\n\n\nдва. To be, or not to be.\n"})
    said = printed("clean", clean={"rules": "notes"})
    assert "clean: removed 28 characters (clean.rules, clean.optional): foreign 26, empty_lines 2\n" in said
    assert "removed" not in printed("clean", clean={"rules": "none"})


def test_tokenize_says_how_much_of_train_was_repeats_and_what_train_lacks(printed):
    """The longest work is train; one of the others repeats 900 characters of it."""
    for stage in ("download", "clean"):
        printed(stage, {"a.txt": WORK, "b.txt": WORK[100:1000] + "ѣ" * 70, "c.txt": OTHER[:1000]})
    by_work = {"strategy": "by_work", "train": 0.7, "val": 0.15, "test": 0.15, "duplicates": "remove"}
    said = printed("tokenize", split=by_work)
    found = re.search(r"^tokenize: removed (\d+) characters of repeats from train \(split.duplicates, ", said, re.M)
    assert int(found[1]) >= 800
    assert "removed" not in printed("tokenize", split=by_work | {"duplicates": "keep"})
    of_train = {"vocabulary": "train", "unknown": "drop"}
    said = printed("tokenize", split=by_work | {"duplicates": "keep"}, tokenize=of_train)
    found = re.search(r"^tokenize: removed (\d+) characters that train lacks \(tokenize.vocabulary, ", said, re.M)
    assert int(found[1]) >= 70
