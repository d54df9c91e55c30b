"""The statistics of the bench are right, and one report is of one commit."""

import math
import statistics
import subprocess

import pytest
import scipy.stats
from hypothesis import assume, given
from hypothesis import strategies as st
from typer.testing import CliRunner

from bench import __main__ as bench
from bench import rows
from bench.measure import job as run_job
from bench.report import Line
from bukva.core.errors import BukvaError
from bukva.core.files import read_json
from bukva.text.collection import Document, write_collection

pairs = st.lists(st.tuples(st.floats(0.1, 99), st.floats(0.1, 99)), min_size=2, max_size=7)


@given(pairs)
def test_the_interval_of_a_ratio_is_that_of_a_paired_t_test_of_the_logarithms(values):
    logs = [math.log(plain / ours) for ours, plain in values]
    assume(statistics.stdev(logs) > 1e-6)  # scipy warns below
    oracle = scipy.stats.ttest_1samp(logs, 0).confidence_interval(0.95)
    ours, plain = map(list, zip(*values, strict=True))
    line = Line("", "s", ours, plain)
    assert line.ratio == pytest.approx(scipy.stats.gmean([plain / ours for ours, plain in values]))
    assert line.interval == pytest.approx((math.exp(oracle.low), math.exp(oracle.high)))


def test_a_ratio_is_met_from_the_bound_on_and_a_line_without_a_plain_side_by_its_worst_run():
    assert Line("", "s", [2.0], [6.0]).ratio == Line("", "chars/s", [6.0], [2.0]).ratio == pytest.approx(3)
    assert Line("", "s", [2.0], [6.0]).interval is None
    assert [Line("", "s", [1.0], [plain], 3.0).met for plain in (2.9, 3.1)] == [False, True]
    assert [Line("", "s", [1.0, worst], [], 3.0).met for worst in (2.9, 3.0, 3.1)] == [True, True, False]
    assert [Line("", "%", [9.0, worst], [], 3.0).met for worst in (2.9, 3.0, 3.1)] == [False, True, True]
    assert Line("", "s", [1.0], []).met is None


@pytest.mark.slow
def test_a_job_returns_its_values_and_its_cost_or_the_last_line_of_its_traceback(tmp_path):
    write_collection(tmp_path / "clean", [(Document("prose", "Толстой", "б"), "да и нет\n" * 99)])
    outcome = run_job("count", clean=tmp_path / "clean")
    assert 0 < outcome.values["seconds"] < outcome.seconds
    assert outcome.peak_bytes > 1e6
    with pytest.raises(BukvaError, match=r"bench\.jobs clean .*: FileNotFoundError: .*documents\.parquet"):
        run_job("clean", raw=tmp_path, clean=tmp_path / "clean")


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Run the command with these rows, in a repository of one file; what typer's runner returns."""
    monkeypatch.setattr(bench, "ROOT", tmp_path)
    monkeypatch.setattr(bench, "REPORTS", tmp_path / "reports")
    monkeypatch.setattr(bench, "UNFINISHED", tmp_path / ".bukva" / "bench.json")
    (tmp_path / ".gitignore").write_text("/.bukva\n")
    commit(tmp_path, "2")

    def run(*names, **rows):
        monkeypatch.setattr(bench, "ROWS", rows)
        return CliRunner().invoke(bench.app, names)

    return run


def commit(folder, content):
    (folder / "file").write_text(content)
    for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "a commit"]):
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *words], cwd=folder, check=True)


@pytest.fixture
def counted():
    """Returns a function that makes a row of this value, and the values that were measured."""
    calls = []

    def make(value):
        def measure(_):
            """Some row."""
            calls.append(value)
            return [Line("some thing", "s", [value, value], [3 * value, 3 * value], 2.0)]

        return measure

    return make, calls


def broken(_):
    """A row that fails."""
    raise BukvaError("a.txt: no connection.")


def test_a_row_that_fails_stops_no_other_and_is_measured_by_the_same_command_at_the_same_commit(run, counted, tmp_path):
    measured, calls = counted
    done = run(first=broken, second=measured(5.0), third=broken)
    assert done.exit_code == 1
    assert str(done.exception) == "bench: no report was written, because rows failed (reasons above): first, third."
    assert done.stderr.splitlines() == [f"    {row}: not measured: a.txt: no connection." for row in ("first", "third")]
    assert "    some thing | 2 | 5 s | 15 s | 3x (3 to 3) | ≥ 2x | yes\n" in done.stdout
    assert not (tmp_path / "reports").exists()
    assert run(first=measured(7.0), second=measured(6.0)).exit_code == 0
    rows = read_json(tmp_path / "reports" / "bench.json")["rows"]
    assert [(name, row["lines"][0]["ours"]) for name, row in rows.items()] == [("first", [7, 7]), ("second", [5, 5])]
    assert run(first=measured(8.0), second=measured(9.0)).exit_code == 0  # the report was complete
    assert calls == [5, 7, 8, 9]
    run(first=broken, second=measured(10.0))
    commit(tmp_path, "3")
    assert run(first=measured(11.0), second=measured(12.0)).exit_code == 0
    assert calls[4:] == [10, 11, 12]


def test_with_a_changed_file_only_named_rows_are_measured_and_nothing_is_written(run, counted, tmp_path):
    measured, calls = counted
    (tmp_path / "file").write_text("3")
    done = run(some=measured(5.0))
    message = "bench: files differ from the last commit. Commit or stash them, or name single rows."
    assert (done.exit_code, calls, str(done.exception)) == (1, [], message)
    done = run("some", some=measured(5.0), other=broken)
    assert done.exit_code == 0
    assert "-dirty; " in done.stdout
    assert "3x (3 to 3)" in done.stdout
    assert not (tmp_path / "reports").exists()
    assert not (tmp_path / ".bukva").exists()


def test_an_unknown_row_and_a_row_without_its_mirror_are_one_sentence(run, tmp_path, monkeypatch):
    done = run("speed", some=broken, other=broken)
    assert str(done.exception) == "bench: unknown row speed. Use some, other."
    monkeypatch.delenv("BUKVA_MIRROR", raising=False)
    with pytest.raises(BukvaError, match=r"RusLit cannot be downloaded without a mirror\. Set BUKVA_MIRROR"):
        rows.ruslit(tmp_path)
