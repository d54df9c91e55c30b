"""Stages print how much text they leave out, and the parameter that decides."""

import importlib
import json
import re
from pathlib import Path

import pytest

from bukva.core.errors import ParamsError
from bukva.core.files import write_text
from bukva.core.params import PARAMS, read_yaml
from tests.support.imports import ROOT, SHIPPED

TALES = sorted((ROOT / "data/sample/prose/skazki").glob("*.txt"))
WORK, OTHER = (tale.read_text(encoding="utf-8")[:4000] for tale in TALES[:2])


@pytest.fixture
def printed(tmp_path, monkeypatch, capsys):
    """Return a function that runs a stage in a project with given works and parameters, and returns its output."""
    for name in ("src", "stages", "rules", "dvc.yaml", "numerics.lock"):
        (tmp_path / name).symlink_to(ROOT / name)
    monkeypatch.setenv("BUKVA_ROOT", str(tmp_path))
    monkeypatch.chdir(tmp_path)

    def run(stage, works=(), **changes):
        for name, text in dict(works).items():
            write_text(tmp_path / "books" / name, text)
        sections = read_yaml(SHIPPED)
        sections["download"] |= {"corpus": "local", "path": "books"}
        for section, values in changes.items():
            sections[section] |= values
        Path(PARAMS).write_text(json.dumps(sections), encoding="utf-8")
        importlib.import_module(f"stages.{stage}").main()
        return capsys.readouterr().out

    return run


def test_a_prompt_outside_the_vocabulary_stops_each_training_before_it_begins(printed, monkeypatch):
    monkeypatch.setattr("stages.training.launch", pytest.fail)
    monkeypatch.setattr("stages.training.join", pytest.fail)
    for stage in ("download", "clean", "tokenize"):
        printed(stage, {"a.txt": WORK})
    for stage in ("train_bigram", "train_gpt"):
        with pytest.raises(ParamsError, match=r"sample\.prompts: 'Ωмега': not in the vocabulary of .*'Ω'"):
            printed(stage, sample={"prompts": ["Ωмега"]}, train_gpt={"processes": 2})


def test_download_refuses_what_dvc_cannot_read_after_the_stage(printed, tmp_path):
    printed("download", {"a.txt": WORK})
    (tmp_path / "books" / "link.txt").symlink_to("nowhere")
    for corpus in ("local", "url"):  # DVC reads download.path in any case
        with pytest.raises(ParamsError, match=r"^books/link\.txt: is a broken link\. Remove it\.$"):
            printed("download", download={"corpus": corpus, "url": "http://127.0.0.1:1/a.txt", "sha256": "0" * 64})


def test_clean_says_how_much_each_rule_removed_and_which_works_lose_most_to_the_marks_of_publishers(printed):
    printed("download", {"a.txt": "Раз,\n\n\nдва. To be, or not to be.\n"})
    said = printed("clean", clean={"rules": "notes"})
    assert "clean: removed 28 characters (clean.rules): foreign 26, empty_lines 2\n" in said
    assert "removed" not in printed("clean", clean={"rules": "none"})
    start, end = (f"*** {mark} OF THE PROJECT GUTENBERG EBOOK ***\n" for mark in ("START", "END"))
    printed("download", {"a.txt": f"{WORK}\n{end}x\n", **{f"{name}.txt": f"{OTHER}\n{start}x\n" for name in "bcde"}})
    said = printed("clean", clean={"rules": "publishers"})
    n_chars = len(f"{end}x\n") + 4 * len(f"{OTHER}\n{start}")
    assert f"clean: removed {n_chars:,} characters (clean.rules): gutenberg {n_chars:,}\n" in said
    named = ", ".join(f"-/-/{name} 99.9 %" for name in "bcd")
    assert f"clean: gutenberg removed most of 4 works (clean.rules): {named} and 1 more\n" in said


def test_tokenize_and_split_say_what_was_cut_out_of_train_and_what_of_val_and_test_is_in_it(printed):
    """Two of five works repeat a third one."""
    works = {**{f"{name}.txt": WORK for name in "abc"}, "d.txt": OTHER, "e.txt": OTHER[::-1]}
    for stage in ("download", "clean"):
        printed(stage, works)
    by_work = {"strategy": "by_work", "train": 0.7, "val": 0.15, "test": 0.15}
    said = [printed(stage, split=by_work | {"duplicates": "remove"}) for stage in ("tokenize", "split")]
    removed = r"^tokenize: removed [\d,]+ characters of repeated passages from train \(split.duplicates\)"
    missed = r"^split: train has [\d.]+ % of the characters instead of 70 %; .*: [\d,]+ characters in \d works? were"
    assert all(re.search(words, of_stage, re.M) for words, of_stage in zip((removed, missed), said, strict=True))
    said = [printed(stage, split=by_work | {"duplicates": "keep"}) for stage in ("tokenize", "split")]
    assert "removed" not in said[0]
    assert re.search(r"^split: [\d.]+ % of the windows of 32 characters in (val|test) also occur in", said[1], re.M)
