"""The benchmarks compare like with like, and report what they measured; nothing here is timed."""

import json
import subprocess
import sys

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from imports import ROOT

from bench import report
from bench.__main__ import ROWS
from bench.job import JOBS
from bench.measure import Outcome, alternate, job
from bench.plain.text import EXCLUDE, FOREIGN, PREFIXES, clean_lines, encode
from bench.rows import Goal, Measured, Row, Side
from bukva.base.errors import BukvaError
from bukva.corpus.cleaning import clean
from bukva.tokenizers.char import CharTokenizer

SAMPLE = sorted((ROOT / "data" / "sample").rglob("*.txt"))

pieces = st.sampled_from(
    [*PREFIXES, *sorted(EXCLUDE), *sorted(FOREIGN)[:99], "\n", "\r\n", "\r", " ", "\u00a0", "/", "ж"]
)
texts = st.lists(pieces | st.characters(exclude_categories=["Cs"]), max_size=40).map("".join)


def bench(*arguments):
    return subprocess.run([sys.executable, "-m", "bench", *arguments], cwd=ROOT, capture_output=True, text=True)


def row(name="some", *goals):
    return Row(name, f"{name} thing", "s", goals or (Goal("ratio", "x", 8, 15),), lambda _: Measured({}))


def recorded(name, value):
    side = Side((value, value / 2, 4 * value), 123_000_000)
    return report.record(row(name), Measured({"ratio": value}, side, side, (f"{name}: a note",)), seconds=1.0)


# ---- the plain side does what ours does


@given(texts)
@example("")
@example("- ")
@example("--  /*/\r\r\n//*/ / \n- -- ж")
def test_the_plain_cleaner_gives_our_text(text):
    assert clean_lines(text) == clean(text, "notes")[0]


@pytest.mark.parametrize("work", SAMPLE, ids=lambda path: path.stem)
def test_the_plain_cleaner_gives_our_text_of_the_embedded_corpus(work):
    text = work.read_bytes().decode()
    assert clean_lines(text) == clean(text, "notes")[0]


def test_the_plain_encoder_gives_our_ids():
    text = SAMPLE[0].read_text(encoding="utf-8")
    tokenizer = CharTokenizer.of([text])
    assert encode(text, tokenizer.chars).tolist() == tokenizer.encode(text).tolist()


# ---- processes


def test_a_job_gives_its_numbers_with_seconds_and_memory(tmp_path):
    for folder, name in (("prose/Толстой", "б.txt"), ("poems/Пушкин", "а.txt")):
        (tmp_path / "clean" / folder).mkdir(parents=True)
        (tmp_path / "clean" / folder / name).write_text("да и нет\n", encoding="utf-8")
    outcome = job("clean-plainly", raw=tmp_path / "clean", clean=tmp_path / "again")
    assert 0 < outcome.values["seconds"] < outcome.seconds
    assert outcome.peak_bytes > 1e6
    assert (tmp_path / "again/prose/Толстой/б.txt").read_text(encoding="utf-8") == "да и нет\n"


def test_a_job_that_fails_is_the_last_line_it_told(tmp_path):
    with pytest.raises(BukvaError, match=r"bench\.job clean .*: FileNotFoundError: .*documents\.csv"):
        job("clean", raw=tmp_path, clean=tmp_path / "clean")


def test_sides_take_turns():
    cos_sin = []
    ours, theirs = alternate(
        2, lambda: cos_sin.append("ours") or Outcome(1, 1), lambda: cos_sin.append("theirs") or Outcome(2, 1)
    )
    assert cos_sin == ["ours", "theirs", "ours", "theirs"]
    assert ([each.seconds for each in ours], [each.seconds for each in theirs]) == ([1, 1], [2, 2])


def test_what_measures_stays_light():
    loaded = "import sys, bench.__main__; sys.exit(bool({'torch', 'numpy', 'pandas', 'mlflow'} & set(sys.modules)))"
    environment = {"PYTHONPATH": str(ROOT / "src")}
    assert subprocess.run([sys.executable, "-c", loaded], cwd=ROOT, env=environment).returncode == 0


# ---- rows and their report


def test_an_unknown_row_is_one_sentence_that_names_the_rows():
    done = bench("clean", "speed")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"bench: no row is called speed; the rows are {', '.join(ROWS)}.\n"


def test_the_rows_can_be_listed():
    assert [line.split()[0] for line in bench("--list").stdout.splitlines()] == list(ROWS)


def test_every_name_is_one_word_and_stands_once():
    assert all(" " not in name for name in [*ROWS, *JOBS])
    from bench import models, pipeline, text

    assert len(ROWS) == sum(len(module.ROWS) for module in (models, text, pipeline))
    assert len(JOBS) == sum(len(module.JOBS) for module in (models, text))


@pytest.mark.parametrize(("value", "verdict"), [(7.9, "no"), (8, "yes"), (14.9, "yes"), (15, "aim")])
def test_a_ratio_is_met_from_its_bound_on(value, verdict):
    assert Goal("ratio", "x", 8, 15).verdict(value) == verdict


@pytest.mark.parametrize(("value", "verdict"), [(20.1, "no"), (20, "yes"), (12.1, "yes"), (12, "aim")])
def test_seconds_are_met_up_to_their_bound(value, verdict):
    assert Goal("seconds", "s", 20, 12, less_is_better=True).verdict(value) == verdict


def test_what_is_only_reported_is_neither_met_nor_missed():
    assert Goal("ratio", "x").verdict(3) == ""
    assert Goal("memory", "MB", 300, less_is_better=True).verdict(1) == "yes"


def test_a_side_is_its_median_and_its_spread():
    side = recorded("clean", 2.0)["ours"]
    assert (side["lowest"], side["median"], side["highest"], side["runs"], side["peak_mb"]) == (1.0, 2.0, 8.0, 3, 123.0)


def test_the_table_shows_every_score_of_a_row():
    goals = (Goal("ratio", "x", 8, 15), Goal("memory", "MB", 300, less_is_better=True))
    measured = Measured({"ratio": 16.04, "memory": 301.0}, Side((1.5,), 301_000_000), Side((24.0,), 4_000_000))
    record = report.record(row("clean", *goals), measured, seconds=61)
    lines = report.page(report.merge(ROOT / "absent", {"clean": record}, ["clean"])).splitlines()
    assert "| clean | clean thing | 1.5 | 24 | s | 16x | 8x | 15x | aim | 301 / 4 |" in lines
    assert "| · memory |  |  |  |  | 301 MB | ≤ 300 MB |  | no |  |" in lines
    assert any(line.startswith("- `make bench ONLY=clean`: 1 min 01 s, at ") for line in lines)


def test_a_run_of_some_rows_replaces_only_these(tmp_path):
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


def test_rows_of_another_machine_and_rows_that_are_none_any_more_go(tmp_path):
    report.save(report.merge(tmp_path / "bench.json", {"clean": recorded("clean", 2.0)}, ["clean"]), tmp_path)
    fresh = {"start": recorded("start", 1.0)}
    assert list(report.merge(tmp_path / "bench.json", fresh, ["start"])["rows"]) == ["start"]
    elsewhere = json.loads((tmp_path / "bench.json").read_text(encoding="utf-8"))
    elsewhere["machine"]["cores"] += 1
    (tmp_path / "bench.json").write_text(json.dumps(elsewhere), encoding="utf-8")
    assert list(report.merge(tmp_path / "bench.json", fresh, ["clean", "start"])["rows"]) == ["start"]


def test_a_page_names_processor_cores_and_versions():
    text = report.page(report.merge(ROOT / "absent", {}, []))
    assert all(f"{name} " in text for name in ("python", "torch", "numpy", "dvc", "mlflow"))
    assert " cores, " in text


def test_the_terminal_shows_the_rows_and_their_notes(capsys):
    report.show(report.merge(ROOT / "absent", {"clean": recorded("clean", 9.0)}, ["clean"]))
    shown = capsys.readouterr().out
    assert all(word in shown for word in ("clean", "9x", "8x", "15x", "yes", "clean: a note"))
