"""make report: the page that is made of the last run, read as a program and, where Chromium is, drawn by a browser."""

import json
import re
import shutil
import subprocess

import pytest
from lxml import html

pytestmark = pytest.mark.slow

BROWSER = shutil.which("chromium")
CHARTS = 5


def report(project, **kwargs):
    return project.run("python", "-m", "bukva", "report", "reports/index.html", PYTHONPATH="src", **kwargs)


@pytest.fixture(scope="module")
def page(copied):
    """The page of the template, parsed."""
    copied.reset()
    report(copied)
    return html.parse(str(copied.folder / "reports/index.html")).getroot()


def cells(table):
    return [[cell.text_content() for cell in row.xpath("th|td")] for row in table.xpath(".//tr")]


def test_the_page_is_one_file_that_asks_nothing_of_a_network(project, page):
    file = project.folder / "reports/index.html"
    assert file.stat().st_size < 5_000_000
    assert not page.xpath("//link|//img|//iframe|//script[@src]")
    assert all(address.startswith("#") for address in page.xpath("//@href"))
    assert "url(" not in page.xpath("//style")[0].text
    ids = set(page.xpath("//section/@id"))
    assert {address[1:] for address in page.xpath("//nav//@href")} == ids
    assert file.name not in project.run("git", "status", "--porcelain")


def test_its_scores_are_those_of_metrics_json(project, page):
    metrics = json.loads(project.read("reports/metrics.json"))
    assert f"{metrics['gpt']['test']['bits_per_char']:.3f} bits per character on test" in page.xpath("//h1")[0].text
    header, *rows = cells(page.xpath("//section[@id='verdict']//table")[0])
    assert header[1:] == ["train", "val", "test"]
    shown = {row[0]: row[1:] for row in rows}
    for label, key in (("GPT with its n-grams", "gpt"), ("GPT without its n-grams", "network"),
                       ("bigram, learned", "bigram")):  # fmt: skip
        assert shown[label] == [f"{metrics[key][split]['bits_per_char']:.3f}" for split in ("train", "val", "test")]
    for label, key in (("n-grams of order 6", "ngram_6"), ("by frequency", "unigram"), ("ppmd", "ppmd")):
        assert shown[label][1:] == [f"{metrics['baselines'][split][key]:.3f}" for split in ("val", "test")]
    assert len(rows) == len(metrics["baselines"]["val"]) + len(["bigram", "gpt", "network", "mixture"])


def test_its_verdict_is_that_of_make_compare(project, page):
    said = project.run("python", "-m", "bukva", "compare", "--split", "val", "HEAD", "workspace", PYTHONPATH="src")
    sentences = page.xpath("//section[@id='verdict']//h3/following-sibling::p/text()")
    assert sentences
    assert all(sentence in said for sentence in sentences)


def test_every_sample_is_there_at_every_temperature(project, page):
    answers = json.loads((project.folder / "data/samples.json").read_text(encoding="utf-8"))["answers"]
    texts = [pre.text_content() for pre in page.xpath("//article//pre")]
    assert sorted(texts) == sorted(one["read"] + one["written"] for one in answers)
    keys = {f"{one['prompt']} {one['temperature']}" for one in answers}
    assert set(page.xpath("//article/@data-sample")) == keys


def test_the_hardest_and_easiest_passages_stand_in_the_text(project, page):
    text = (project.folder / "data/clean/text.txt").read_text(encoding="utf-8")
    passages = [pre.text_content() for pre in page.xpath("//section[@id='anatomy']//pre")]
    assert len(passages) > 2
    assert all(passage in text for passage in passages)


def test_the_specifications_are_those_that_the_choices_name(page):
    specs = json.loads(page.get_element_by_id("specs").text)
    places = page.xpath("//*[@data-chart]")
    assert sorted(specs) == sorted(place.get("data-chart") for place in places)
    for place in places:
        form = place.get("data-choices")
        groups = [fieldset.xpath(".//@value") for fieldset in page.xpath(f"//form[@id='{form}']/fieldset")]
        assert set(specs[place.get("data-chart")]) == set(joined(groups)) if form else {""}


def joined(groups):
    """Every choice of one value of each group, as the page's script joins them."""
    found = [""]
    for values in groups:
        found = [f"{before} {value}".strip() for before in found for value in values]
    return found


@pytest.mark.skipif(not BROWSER, reason="Chromium is not installed, so the page is not drawn")
def test_a_browser_draws_every_chart_without_an_error_and_shows_one_choice_of_samples(project, page):
    shown = subprocess.run(
        [BROWSER, "--headless=new", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=20000", "--dump-dom",
         "--enable-logging=stderr", f"file://{project.folder / 'reports/index.html'}"],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    assert "CONSOLE" not in shown.stderr
    drawn = html.fromstring(shown.stdout)
    assert len(drawn.xpath("//*[@data-chart]//*[local-name()='svg']")) == CHARTS
    articles = drawn.xpath("//article")
    visible = {article.get("data-sample") for article in articles if article.get("hidden") is None}
    assert len(visible) == 1
    assert re.fullmatch(r"0 0\.8", visible.pop())


def test_without_a_run_there_is_one_sentence(project):
    (project.folder / "data/samples.json").unlink()
    printed = report(project, ok=False)
    assert "data/samples.json: is missing, so there is nothing to report; run `make repro`." in printed
    assert "Traceback" not in printed
