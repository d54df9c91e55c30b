"""Which pages there are, what is safe on them, and what their sections and charts show."""

import itertools
import json

import pytest
from jinja2 import Environment, PackageLoader
from lxml import html
from works import KINDS, SPLITS, held_out

from bukva.core.errors import BukvaError
from bukva.report import page
from bukva.report.sections import scored_text

NO_BASELINE = "workspace: stage evaluate has not run, so there is no baseline."


def no_baseline(*_):
    raise BukvaError(NO_BASELINE)


def test_without_experiments_to_compare_there_is_one_page_and_a_sentence(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(page, "page_of", lambda name, links, here: f"{name} {links} {here}")
    monkeypatch.setattr(page, "default_baseline", no_baseline)
    beside = tmp_path / "experiments.html"
    beside.write_text("of a former commit")
    assert page.build(tmp_path / "index.html") == [tmp_path / "index.html"]
    assert (tmp_path / "index.html").read_text() == "workspace [] index.html"
    assert not beside.exists()
    assert capsys.readouterr().err.startswith(f"{beside} was not written. {NO_BASELINE}")


def test_commands_in_sentences_are_code_and_nothing_else_is():
    environment = Environment(loader=PackageLoader("bukva.report"), autoescape=True, trim_blocks=True)
    code = environment.get_template("macros.html.j2").module.code
    assert code("run `make <a> & b`; 1 < 2") == "run <code>make &lt;a&gt; &amp; b</code>; 1 &lt; 2"


def test_nothing_that_a_text_contains_becomes_an_element_or_ends_one():
    strange = "</script><b>a</b>&"
    specs = {strange: {"title": strange}}
    row = {"names": [(strange, "/"), (strange, "")], "n_seeds": 2, "scores": [strange], "verdict": ("", strange),
           "changed": [strange], "cost": strange}  # fmt: skip
    shown = {"name": strange, "best": strange, "rows": [row], "differences": specs[strange], "losses": specs}
    made = page.render(
        "experiments.html.j2", title=strange, subtitle=strange, served=True, links=[("/", strange)], here="/",
        tries={"sentence": strange, "chart": specs[strange]}, split="val",
        matters=strange, cards=[(strange, strange, strange, strange)], texts=[shown], sentences=[f"`{strange}`"],
    )  # fmt: skip
    assert strange not in made
    parsed = html.fromstring(made)
    assert not parsed.xpath("//b")
    assert parsed.xpath("//h1")[0].text == parsed.xpath("//option")[0].text == strange
    assert [link.text for link in parsed.xpath("//*[@aria-current='page']")] == [strange]
    drawn = parsed.xpath("//script[@type='application/json']")
    assert [json.loads(each.text) for each in drawn] == [[{"title": strange}]] * 3  # differences, losses, tries


@pytest.mark.parametrize(("kind", "split"), [*itertools.product(KINDS, SPLITS)])
def test_the_scored_characters_are_in_the_order_of_the_works(kind, split, tmp_path):
    text = held_out(tmp_path, kind, split)
    found = scored_text(tmp_path / "split", tmp_path / "tokens")
    assert found == "".join(text.tokenizer.decode(passage.scored) for passage in text.passages("val", 1))
    assert len(found) == text.chars["val"].sum()
