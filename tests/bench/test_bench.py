"""Both sides of a benchmark compute the same, and the report shows what was measured; nothing here is timed."""

import json
import os
import subprocess
import sys

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from imports import ROOT
from typer.testing import CliRunner

from bench import __main__ as bench_main
from bench import pipeline, report
from bench.__main__ import ROWS
from bench.measure import job as run_job
from bench.plain.text import EXCLUDE, FOREIGN, PREFIXES, clean_lines, encode
from bench.rows import Goal, Measured, Row, Side
from bukva.core.errors import BukvaError
from bukva.corpus.cleaning.clean import clean
from bukva.corpus.cleaning.rule_sets import rule_set
from bukva.corpus.sources.download import registry
from bukva.text.collection import TEXT, Document, write_collection
from bukva.text.tokenizers.char import CharTokenizer

SAMPLE = sorted((ROOT / "data" / "sample").rglob("*.txt"))

pieces = st.sampled_from(
    [*PREFIXES, *sorted(EXCLUDE), *sorted(FOREIGN)[:99], "\n", "\r\n", "\r", " ", "\u00a0", "/", "ж"]
)
texts = st.lists(pieces | st.characters(exclude_categories=["Cs"]), max_size=40).map("".join)


def bench(*arguments):
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-m", "bench", *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)


def row(name="some", *goals):
    return Row(name, f"{name} thing", "s", goals or (Goal("ratio", "x", 8, 15),), lambda _: Measured({}))


def recorded(name, value):
    side = Side((value, value / 2, 4 * value), 123_000_000)
    return report.record(row(name), Measured({"ratio": value}, side, side, (f"{name}: a note",)), seconds=1.0)


# ---- both sides compute the same


@given(texts)
@example("")
@example("- ")
@example("--  /*/\r\r\n//*/ / \n- -- ж")
def test_the_plain_cleaner_returns_our_text(text):
    assert clean_lines(text) == clean(text, rule_set("notes")).text


def test_the_plain_encoder_returns_our_ids():
    text = SAMPLE[0].read_text(encoding="utf-8")
    tokenizer = CharTokenizer.train([text])
    assert encode(text, tokenizer.chars).tolist() == tokenizer.encode(text).tolist()


# ---- processes


@pytest.mark.slow
def test_a_job_returns_its_values_with_seconds_and_memory(tmp_path):
    works = [(Document("prose", "Толстой", "б"), "да и нет\n"), (Document("poems", "Пушкин", "а"), "— Ни да,\n")]
    write_collection(tmp_path / "raw", works)
    outcome = run_job("clean-plain", raw=tmp_path / "raw", clean=tmp_path / "again")
    assert 0 < outcome.values["seconds"] < outcome.seconds
    assert outcome.peak_bytes > 1e6
    assert (tmp_path / "again" / TEXT).read_text(encoding="utf-8") == "Ни да,\nда и нет\n"


@pytest.mark.slow
def test_a_job_that_fails_is_reported_by_the_last_line_of_its_traceback(tmp_path):
    with pytest.raises(BukvaError, match=r"bench\.job clean .*: FileNotFoundError: .*documents\.parquet"):
        run_job("clean", raw=tmp_path, clean=tmp_path / "clean")


# ---- rows that cannot be measured


@pytest.fixture
def run_rows(tmp_path, monkeypatch):
    """Measure these rows by the command, with reports in tmp_path; returns what typer's runner returns."""
    monkeypatch.setattr(bench_main, "REPORTS", tmp_path)

    def run(*rows):
        monkeypatch.setattr(bench_main, "ROWS", {one.name: one for one in rows})
        return CliRunner().invoke(bench_main.app, [])

    return run


def broken_row(name, sentence):
    def measure(_):
        raise BukvaError(sentence)

    return Row(name, f"{name} thing", "s", (Goal("ratio", "x"),), measure)


def measured_row(name):
    return Row(name, f"{name} thing", "s", (Goal("ratio", "x"),), lambda _: Measured({"ratio": 9.0}))


def test_rows_that_fail_do_not_stop_the_others_and_are_listed_at_the_end(run_rows, tmp_path):
    done = run_rows(
        broken_row("clean", "a.txt: no connection."),
        measured_row("start"),
        broken_row("growth", "a.txt: no connection."),
        broken_row("data", "b.txt: no mirror."),
        measured_row("idle"),
    )
    assert done.exit_code == 1
    assert done.stderr.splitlines() == [
        "    clean: not measured: a.txt: no connection.",
        "    growth: not measured: the same reason as clean",
        "    data: not measured: b.txt: no mirror.",
    ]
    assert str(done.exception) == "bench: 3 of 5 rows not measured: clean, growth, data (reasons above)."
    assert "[5/5] idle: idle thing ...\n    9x; took 0 s\n" in done.stdout
    assert list(json.loads((tmp_path / "bench.json").read_text(encoding="utf-8"))["rows"]) == ["start", "idle"]


def test_a_run_without_any_result_writes_no_report_and_one_without_a_failure_ends_well(run_rows, tmp_path):
    done = run_rows(broken_row("clean", "a.txt: no connection."))
    assert (done.exit_code, [*tmp_path.iterdir()]) == (1, [])
    done = run_rows(measured_row("start"), measured_row("idle"))
    assert (done.exit_code, done.stderr) == (0, "")


def test_the_row_data_without_a_mirror_names_the_file_that_it_needs(tmp_path, monkeypatch):
    monkeypatch.delenv("BUKVA_MIRROR", raising=False)
    with pytest.raises(BukvaError) as error:
        pipeline.data(tmp_path)
    assert str(error.value) == (
        f"no mirror to download from; set BUKVA_MIRROR to a folder that contains {registry()['ruslit'].file}."
    )


# ---- rows and their report


@pytest.mark.slow
def test_an_unknown_row_is_an_error_that_names_the_rows():
    done = bench("clean", "speed")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"bench: unknown row speed; use {', '.join(ROWS)}.\n"


def test_a_bound_is_met_when_it_is_reached():
    at_least, at_most = Goal("ratio", "x", 8, 15), Goal("seconds", "s", 20, 12, less_is_better=True)
    assert [at_least.verdict(value) for value in (7.9, 8, 14.9, 15)] == ["no", "yes", "yes", "aim"]
    assert [at_most.verdict(value) for value in (20.1, 20, 12.1, 12)] == ["no", "yes", "yes", "aim"]
    assert Goal("ratio", "x").verdict(3) == ""


def test_the_table_shows_every_score_of_a_row():
    goals = (Goal("ratio", "x", 8, 15), Goal("memory", "MB", 300, less_is_better=True))
    measured = Measured({"ratio": 16.04, "memory": 301.0}, Side((1.5,), 301_000_000), Side((24.0,), 4_000_000))
    record = report.record(row("clean", *goals), measured, seconds=61)
    lines = report.page(report.merge(ROOT / "absent", {"clean": record}, ["clean"])).splitlines()
    assert "| clean | clean thing | 1.5 | 24 | s | 16x | 8x | 15x | aim | 301 / 4 |" in lines
    assert "| · memory |  |  |  |  | 301 MB | ≤ 300 MB |  | no |  |" in lines
    assert any(line.startswith("- `make bench ONLY=clean`: 1 min 01 s, at ") for line in lines)


def test_a_run_of_some_rows_replaces_only_those(tmp_path):
    order = ["clean", "data", "start"]
    first = report.merge(
        tmp_path / "bench.json", {"start": recorded("start", 1.0), "clean": recorded("clean", 2.0)}, order
    )
    report.save(first, tmp_path)
    second = report.merge(tmp_path / "bench.json", {"start": recorded("start", 9.0)}, order)
    report.save(second, tmp_path)
    assert list(second["rows"]) == ["clean", "start"]
    assert second["rows"]["clean"] == first["rows"]["clean"]
    assert second["rows"]["start"]["scores"][0]["value"] == 9.0
    assert json.loads((tmp_path / "bench.json").read_text(encoding="utf-8")) == second
    assert "- clean: a note" in (tmp_path / "bench.md").read_text(encoding="utf-8").splitlines()


def test_the_picture_of_the_race_is_drawn_again_when_one_of_its_rows_was_measured(tmp_path):
    rows = {name: recorded(name, 1.0) for name in ("race", "race-network")}
    for n, row in enumerate(rows.values(), start=1):
        row["details"] = {"curves": [[[n, 2.5], [n + 1, 1.9]]], "plain_curve": [[7, 2.5], [11, 1.9]]}
    report.save({**report.merge(tmp_path / "bench.json", {}, []), "rows": {"race": rows["race"]}}, tmp_path)
    assert "bench_race.png" not in (tmp_path / "bench.md").read_text(encoding="utf-8")
    pictures = set()
    for last in (13, 17):
        rows["race-network"]["details"]["plain_curve"][-1][0] = last
        report.save(report.merge(tmp_path / "bench.json", rows, list(rows)), tmp_path)
        pictures.add((tmp_path / "bench_race.png").read_bytes())
    assert len(pictures) == 2
    assert "(bench_race.png)" in (tmp_path / "bench.md").read_text(encoding="utf-8")
