"""The leaderboard: order, verdicts, luck, and what has no result."""

import re
from dataclasses import replace
from types import SimpleNamespace

import pytest
import vl_convert
from lxml import html
from typer.testing import CliRunner

from bukva.cli.app import app
from bukva.compare.comparison import leaderboard
from bukva.compare.records import looks_at_test
from bukva.compare.statistics.settings import MATTERS, expected_luck
from bukva.core.errors import BukvaError
from bukva.report import page
from bukva.report.leaderboard import print_leaderboard, sentences, table, to_json
from tests.compare.made import seeds_of

HEADS = {"b": 1, "c": 2, "d": 8}


def sweep(known, effects, seeds=(1337,)):
    """The baseline with five seeds, and settings of other n_head. Return the leaderboard."""
    known("HEAD")
    seeds_of(known, "base", range(1, 5))
    for (name, heads), effect in zip(HEADS.items(), effects, strict=True):
        seeds_of(known, name, seeds, {"model.n_head": heads}, effect=effect)
    return leaderboard("HEAD", "gpt")


def test_settings_are_sorted_by_val_seeds_are_folded_and_verdicts_are_corrected_for_all(known):
    board = sweep(known, [0.3, -0.3, 0.001], seeds=(1, 2, 3))
    assert board.floor.df == 4 + 3 * 2
    [rows] = board.texts
    found = {row.changed.get("model.n_head"): row for row in rows}
    assert [*found][::3] == [2, 1]
    assert {heads: row.setting.names for heads, row in found.items()} == {
        2: ["c1", "c2", "c3"],
        None: ["base1", "base2", "base3", "base4", "HEAD"],
        8: ["d1", "d2", "d3"],
        1: ["b1", "b2", "b3"],
    }
    assert found.pop(None).comparison is None
    verdicts = {heads: row.comparison.verdict for heads, row in found.items()}
    said = {heads: verdict.verdict for heads, verdict in verdicts.items()}
    assert said == {1: "worse", 2: "better", 8: "no difference that matters"}
    assert {verdict.compared for verdict in verdicts.values()} == {3}


def test_the_best_of_several_is_marked_with_luck_and_only_three_seeds_that_no_other_setting_has_are_fresh(known):
    board = sweep(known, [-0.02, -0.3, -0.01])
    assert board.winner.best.names == ["c1337"]
    assert board.winner.luck == pytest.approx(expected_luck(3, board.floor.sd))
    assert (board.winner.n_settings, board.winner.unused_seeds) == (3, [])
    said = "\n".join(sentences(board))
    assert "c1337 is the best of 3 settings on val. The gain expected from luck alone is 0.0" in said
    assert "bukva seeds 4" in said
    seeds_of(known, "c", (8, 9), {"model.n_head": 2}, effect=-0.3)
    two = leaderboard("HEAD", "gpt").winner
    assert (two.unused_seeds, two.on_unused_seeds) == ([8, 9], None)
    seeds_of(known, "c", (10,), {"model.n_head": 2}, effect=-0.3)
    board = leaderboard("HEAD", "gpt")
    assert board.winner.unused_seeds == board.winner.on_unused_seeds.b.seeds == [8, 9, 10]
    assert board.winner.on_unused_seeds.verdict.verdict == "better"
    assert board.winner.luck == pytest.approx(expected_luck(3, board.floor.sd))  # it was chosen by one seed
    assert any("with fresh seeds, which had no influence on the choice" in line for line in sentences(board))


def test_one_setting_is_not_chosen_of_anything_and_none_that_is_worse_wins(known):
    known("HEAD")
    known("better", {"model.n_head": 1}, effect=-0.1)
    assert leaderboard("HEAD", "gpt").winner is None
    better = known.made.pop("better")
    known("worse", {"model.n_head": 8}, effect=0.1)
    known("worst", {"model.n_head": 2}, effect=0.2)
    assert leaderboard("HEAD", "gpt").winner is None
    known.made["better"] = better
    board = leaderboard("HEAD", "gpt")
    assert (board.winner.best.names, board.winner.luck) == (["better"], None)  # there is no noise floor
    said = "\n".join(sentences(board))
    assert "luck alone is unknown" in said
    assert "bukva seeds 3" in said


OTHER = {"text": {"val": "9" * 64, "test": "8" * 64}}


def test_each_text_is_ranked_by_itself_and_the_best_is_that_of_the_baselines_text(known, capsys):
    known("HEAD")
    known("better", {"model.n_head": 1}, effect=-0.1)
    hub = {"download.corpus": "huggingface", "download.url": "hf://datasets/o/n@1"}
    for name, effect in (("easier", -2.0), ("easiest", -2.1)):
        known(name, hub | {"model.n_head": 1 + len(name)}, effect=effect, about=OTHER)
    board = leaderboard("HEAD", "gpt")
    found = to_json(board, ["val"])
    assert [row["experiments"] for row in found["rows"]] == [["better"], ["HEAD"]]
    [other] = found["other_texts"]
    assert other["text"] == "huggingface (hf://datasets/o/n@1), 1,313 characters of val"
    assert [(row["experiments"], row["verdict"]) for row in other["rows"]] == [(["easiest"], None), (["easier"], None)]
    print_leaderboard(board, 0, with_test=False, as_json=False)
    ours, theirs = capsys.readouterr().out.split("Experiments on another text")
    assert "easiest" not in ours
    assert "Best of 2 on this text: easiest" in theirs


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_text_without_a_test_split_has_no_test_score_and_is_not_counted(known, monkeypatch, options):
    monkeypatch.setattr("bukva.compare.results.default_baseline", lambda: "HEAD")
    monkeypatch.setenv("COLUMNS", "200")
    known("HEAD")
    known("no test", {"split.test": 0}, about={"text": {"val": "9" * 64}})
    done = CliRunner().invoke(app, ["experiments", "--test", *options])
    assert done.exit_code == 0, done.exception
    assert "no test" in done.stdout
    assert (looks_at_test("2" * 64), looks_at_test("")) == (1, 0)
    done = CliRunner().invoke(app, ["experiments", "--test", "--baseline", "no test", *options])
    assert (done.exit_code, str(done.exception)) == (1, "no test has no scores on test, only on val.")
    assert looks_at_test("2" * 64) == 1


def test_one_training_under_several_names_is_one_row_with_all_of_them_and_what_differs_is_said(known):
    for name, changes in {"HEAD": {}, "samples": {"sample.seed": 5}, "again": {}}.items():
        known(name, changes)
    said = sentences(leaderboard("HEAD", "gpt"))
    assert "samples has the same training and scores as HEAD. The two differ only in sample.seed=5." in said
    assert not any(line.startswith(("Only the baseline", "again has")) for line in said)
    for name, seed in (("elfin-vent", 7), ("gushy-jaws", 7), ("third", 8)):
        known(name, {"model.n_head": 1, "train_gpt.seed": seed}, effect=0.1)
    board = leaderboard("HEAD", "gpt")
    _, rows = table(board, board.texts[0])
    assert [row[0] for row in rows] == ["HEAD, also samples, again", "elfin-vent (2 seeds), also gushy-jaws, third"]
    row = to_json(board, ["val"])["rows"][1]
    assert (row["experiments"], row["also"]) == (["elfin-vent", "third"], ["gushy-jaws"])


def test_incomplete_and_incomparable_experiments_are_listed_with_the_reason_and_never_compared(known, monkeypatch):
    known("HEAD")
    known("window", {"model.n_head": 1}, about={"window": {"length": 32, "stride": 16, "context": "own work"}})
    known("partial", {"model.n_head": 1}, problem="stage evaluate has not run")
    waiting = SimpleNamespace(name="next", why="queued")
    monkeypatch.setattr("bukva.compare.comparison.unfinished", lambda: [waiting])
    board = leaderboard("HEAD", "gpt")
    assert [(row.setting.name, row.comparison) for row in board.texts[0]] == [("HEAD", None), ("window", None)]
    said = "\n".join(sentences(board))
    assert (
        "window was not compared with the baseline. window and HEAD cannot be compared, because they were scored with"
        in said
    )
    assert "Experiments without a result (stage evaluate has not run): partial." in said
    assert "Experiments without a result (queued): next." in said
    known.made["HEAD"] = replace(known.made["partial"], revision=known.made["HEAD"].revision)
    with pytest.raises(
        BukvaError, match=r"HEAD: stage evaluate has not run, so there is no baseline\. Run `make repro`"
    ):
        leaderboard("HEAD", "gpt")


# ---- the chart of the verdicts


def drawn(board):
    """Return the zone, settings, trainings, x axis and words of the chart."""
    chart = page.differences(board)
    data = list(chart["datasets"].values())
    [zone], settings, trainings = (next(rows for rows in data if key in rows[0]) for key in ("zero", "verdict", "seed"))
    svg = vl_convert.vegalite_to_svg(chart | {"width": 600, "autosize": "pad"})
    return SimpleNamespace(
        zone=(zone["difference"], zone["zero"], zone["high"]),
        settings=settings,
        trainings=trainings,
        domain=chart["layer"][0]["encoding"]["x"]["scale"]["domain"],
        words=re.findall(r">([^<]+)</t(?:ext|span)>", svg),
    )


def test_the_chart_has_the_numbers_and_the_order_of_the_verdicts(known):
    sweep(known, [0.3, -0.03, 0.001], seeds=(1, 2, 3))
    for heads in (16, 17):  # alone, each of them would be probably better
        known(f"one {heads}", {"model.n_head": heads}, effect=-0.03)
    board = leaderboard("HEAD", "gpt")
    [rows], found, mean = board.texts, drawn(board), board.baseline.mean("val")
    assert found.zone == (-MATTERS, 0, MATTERS)
    assert found.domain[0] <= -MATTERS
    assert [each["setting"].split(" (")[0] for each in found.settings] == [row.setting.name for row in rows]
    assert found.trainings == [
        {"row": number, "seed": each.seed, "difference": each.result.metrics["gpt"]["val"] - mean}
        for number, row in enumerate(rows)
        for each in row.setting.members
    ]
    said = set()
    for row, one in zip(rows, found.settings, strict=True):
        assert {one["setting"], one["verdict"]} <= set(found.words)
        numbers = [one[key] for key in ("difference", "low", "high")]
        if row.setting is board.baseline:
            assert numbers == [0, 0, 0]
            continue
        verdict = row.comparison.verdict
        assert numbers == [verdict.difference, *verdict.estimate.interval]
        assert one["verdict"] == verdict.verdict
        if verdict.verdict != "no difference that matters":
            assert (one["least"] <= 0 <= one["most"]) == (verdict.verdict == "cannot tell")
            assert one["high"] < 0 or one["low"] > 0
        said.add(verdict.verdict)
    assert said == {"worse", "better", "no difference that matters", "cannot tell"}


def test_an_unknown_interval_is_a_dashed_line_and_the_interval_of_the_text_is_not_drawn(known):
    known("HEAD")
    known("other", {"model.n_head": 1}, effect=0.03)
    found = drawn(leaderboard("HEAD", "gpt"))
    assert [[each["low"], each["high"]] for each in found.settings] == [[0, 0], [None, None]]
    assert found.settings[1]["verdict"] == "cannot tell"


def test_a_setting_that_failed_does_not_squeeze_the_others(known):
    known("HEAD")
    for number, effect in enumerate((0.02, -0.03, 0.04, 1.5)):
        known(f"other{number}", {"model.n_head": 5 + number}, effect=effect)
    found = drawn(leaderboard("HEAD", "gpt"))
    assert found.domain[1] < 0.2
    failed = found.settings[-1]
    assert (failed["shown"], failed["mark"]) == (found.domain[1], "triangle-right")
    assert f"+{failed['difference']:.3f}" in found.words


def test_only_what_has_a_verdict_has_a_chart_of_verdicts_and_it_comes_before_the_table(known, monkeypatch):
    monkeypatch.setattr(page, "default_baseline", lambda: "HEAD")
    known("HEAD")
    known("easier", {"download.corpus": "tinyshakespeare"}, effect=-2.0, about=OTHER)
    known("window", {"model.n_head": 1}, about={"window": {"length": 32, "stride": 16, "context": "own work"}})
    charts = "//figure/@data-chart"
    assert html.fromstring(page.overview([])).xpath(charts) == ["losses", "losses"]
    known("other", {"model.n_head": 2}, effect=0.1)
    made = html.fromstring(page.overview([]))
    assert made.xpath(charts) == ["differences", "losses", "losses"]
    assert made.xpath("//figure[@data-chart='differences']/following-sibling::div//table")
    assert [each["setting"] for each in drawn(leaderboard("HEAD", "gpt")).settings] == ["HEAD", "other"]
