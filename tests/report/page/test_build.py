"""Which pages there are."""

import json
from types import SimpleNamespace

from jinja2 import Environment, PackageLoader
from lxml import html

from bukva.core.errors import BukvaError
from bukva.report.page import build as module
from bukva.report.page import text
from bukva.report.page.render import render
from bukva.report.page.results import Card

NO_BASELINE = "workspace: stage evaluate has not run, so there is no baseline."


def no_baseline(*_):
    raise BukvaError(NO_BASELINE)


def test_without_experiments_to_compare_there_is_one_page_and_a_sentence(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(module, "page_of", lambda name, links, here: f"{name} {links} {here}")
    monkeypatch.setattr(module, "default_baseline", no_baseline)
    beside = tmp_path / "experiments.html"
    beside.write_text("of a former commit")
    assert module.build(tmp_path / "index.html") == [tmp_path / "index.html"]
    assert (tmp_path / "index.html").read_text() == "workspace [] index.html"
    assert not beside.exists()
    assert capsys.readouterr().err.startswith(f"{beside} was not written. {NO_BASELINE}")


def test_commands_in_sentences_are_code_and_nothing_else_is():
    environment = Environment(loader=PackageLoader("bukva.report.page"), autoescape=True, trim_blocks=True)
    code = environment.get_template("macros.html.j2").module.code
    assert code("run `make <a> & b`; 1 < 2") == "run <code>make &lt;a&gt; &amp; b</code>; 1 &lt; 2"


def test_nothing_that_a_text_contains_becomes_an_element_or_ends_one():
    strange = "</script><b>a</b>&"
    specs = {strange: {"title": strange}}
    row = {"names": [(strange, "/"), (strange, "")], "n_seeds": 2, "scores": [strange], "verdict": ("", strange),
           "changed": [strange], "cost": strange}  # fmt: skip
    shown = {"name": strange, "best": strange, "rows": [row], "scores": specs[strange], "losses": specs}
    page = render(
        "experiments.html.j2", title=strange, subtitle=strange, served=True, links=[("/", strange)], here="/",
        tries={"sentence": strange, "chart": specs[strange]},
        split="val", cards=[Card(strange, strange, strange, strange)], texts=[shown], sentences=[f"`{strange}`"],
    )  # fmt: skip
    assert strange not in page
    parsed = html.fromstring(page)
    assert not parsed.xpath("//b")
    assert parsed.xpath("//h1")[0].text == parsed.xpath("//option")[0].text == strange
    assert [link.text for link in parsed.xpath("//*[@aria-current='page']")] == [strange]
    charts = parsed.xpath("//script[@type='application/json']")
    assert [json.loads(each.text) for each in charts] == [[{"title": strange}]] * 3  # scores, losses, tries


def test_a_result_from_before_split_json_lost_what_was_cut_has_the_same_rows():
    experiment = SimpleNamespace(
        read=lambda _: {"works": 2, "chars": 41, "symbols": 7, "rule_set": "none"},
        result=SimpleNamespace(author_word="author", params={"split": {"strategy": "tail", "duplicates": "remove"}}),
    )
    composition = {"authors": [{"author": "a", "chars": 1}], "categories": [{"category": "b", "chars": 1}]}
    seen, cut = {"8": 0.25, "16": 0.125}, {"8": 0.5, "16": 0.375}
    splits = [
        {"train": {"chars": 37, **composition}, "val": {"chars": 4, **composition, "in_train": in_train}}
        for in_train in (seen, {"before": cut, "after": seen})
    ]
    rows, older = (text.corpus(experiment, split)["rows"] for split in splits)
    assert rows[1:] == [["windows of 8 characters that occur in train", "", "25.0 %"],
                        ["windows of 16 characters that occur in train", "", "12.5 %"]]  # fmt: skip
    assert older == rows
