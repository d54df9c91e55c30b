"""The bench's statistics are right, each row of its report has its own commit, and `make reference` names changes."""

import math
import statistics

import pytest
import scipy.stats
from hypothesis import assume, given
from hypothesis import strategies as st
from typer.testing import CliRunner

from bench import __main__ as bench
from bench import rows
from bench.measure import job as run_job
from bench.reference import changes
from bench.report import Line
from bukva.core.errors import BukvaError
from bukva.core.files import read_json, write_json
from bukva.text.collection import Work, write_collection
from tests.support.repository import commit, run_git

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
    write_collection(tmp_path / "clean", [(Work("prose", "Толстой", "б"), "да и нет\n" * 99)])
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
    (tmp_path / "file").write_text("2")
    run_git(tmp_path, "init", "-q")
    commit(tmp_path)

    def run(*names, **rows):
        monkeypatch.setattr(bench, "ROWS", rows)
        return CliRunner().invoke(bench.app, names)

    return run


def measured(value):
    def measure(_):
        """Some row."""
        return [Line("some thing", "s", [value, value], [3 * value, 3 * value], 2.0)]

    return measure


def broken(_):
    """A row that fails."""
    raise BukvaError("a.txt: no connection.")


def test_a_row_is_replaced_alone_and_the_others_keep_their_commit_date_and_machine(run, tmp_path):
    report = tmp_path / "reports" / "bench.json"
    assert run(first=measured(5.0), skipped=lambda _: [], second=measured(6.0)).exit_code == 0
    before = read_json(report)
    assert [*before] == ["first", "second"]
    before["second"] |= {"date": "2026-01-02", "machine": {"cpu": "a processor", "cores": 3, "bf16": []}}
    write_json(report, before)
    (tmp_path / "file").write_text("3")
    head = commit(tmp_path)[:12]
    done = run("first", first=measured(7.0), skipped=broken, second=broken)
    assert done.exit_code == 0
    assert "    some thing | 2 | 7 s | 21 s | 3x (3 to 3) | ≥ 2x | yes\n" in done.stdout
    after = read_json(report)
    assert after["second"] == before["second"]
    assert after["first"]["commit"] == head != before["first"]["commit"]
    assert after["first"]["lines"][0]["ours"] == [7, 7]
    page = report.with_suffix(".md").read_text()
    assert f"| {before['second']['commit']}, 2026-01-02 | 3 cores of a processor, no bf16 in hardware |" in page
    assert f"| {head}, {after['first']['date']} |" in page


def test_a_row_that_fails_stops_no_other_and_the_message_repeats_it(run, tmp_path):
    done = run(first=broken, second=measured(5.0), third=broken)
    assert done.exit_code == 1
    message = 'bench: rows failed (reasons above). Repeat them: make bench ONLY="first third"'
    assert str(done.exception) == message
    assert done.stderr.splitlines() == [f"    {row}: not measured: a.txt: no connection." for row in ("first", "third")]
    assert [*read_json(tmp_path / "reports" / "bench.json")] == ["second"]


def test_with_a_changed_file_rows_are_printed_and_not_written(run, tmp_path):
    (tmp_path / "file").write_text("3")
    done = run("some", some=measured(5.0), other=broken)
    assert done.exit_code == 0
    assert done.stderr == "Files differ from the last commit, so reports/bench.md will not change.\n"
    assert "3x (3 to 3)" in done.stdout
    assert not (tmp_path / "reports").exists()


def test_an_unknown_row_and_a_row_without_its_mirror_are_one_sentence(run, tmp_path, monkeypatch):
    done = run("speed", some=broken, other=broken)
    assert str(done.exception) == "bench: unknown row speed. Use some, other."
    monkeypatch.delenv("BUKVA_MIRROR", raising=False)
    with pytest.raises(BukvaError, match=r"RusLit cannot be downloaded without a mirror\. Set BUKVA_MIRROR"):
        rows.ruslit(tmp_path)


def test_only_a_score_that_changed_by_more_than_seeds_and_processors_do_is_named():
    before, now = {"val": 2.381, "test": 2.368}, {"val": 2.400, "test": 2.389}
    assert changes("ngrams", before, now) == ["ngrams, test 2.389, before 2.368"]
    assert changes("ngrams", now, before) == ["ngrams, test 2.368, before 2.389"]
