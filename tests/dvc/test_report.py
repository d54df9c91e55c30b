"""bukva report: the page that is made of the last run, read as a program and, where Chromium is, drawn by a browser."""

import json
import math
import re

import numpy as np
import pytest
from browser import chromium, needs_chromium, opened
from lxml import html
from playwright.sync_api import expect

from bukva.scoring.char_scores import CharScores, files_of

pytestmark = pytest.mark.nightly

CHARTS = 3


def address(project):
    return f"file://{project.folder / 'reports/index.html'}"


@pytest.fixture
def project(with_ngrams):
    with_ngrams.reset()
    return with_ngrams


@pytest.fixture(scope="module")
def page(with_ngrams):
    with_ngrams.bukva("report")
    return html.parse(str(with_ngrams.folder / "reports/index.html")).getroot()


def cells(table):
    return [[cell.text_content() for cell in row.xpath("th|td")] for row in table.xpath(".//tr")]


def test_the_page_is_one_file_that_asks_nothing_of_a_network(project, page):
    file = project.folder / "reports/index.html"
    assert file.stat().st_size < 5_000_000
    assert not page.xpath("//link[@rel!='icon']|//img|//iframe|//script[@src]")
    own = ("#", "data:,", "experiments.html", "index.html")
    assert all(address.startswith(own) for address in page.xpath("//@href"))
    assert "url(" not in page.xpath("//style")[0].text
    ids = set(page.xpath("//section/@id"))
    assert {address[1:] for address in page.xpath("//nav[@aria-label='Sections']//@href")} == ids
    assert file.name not in project.run("git", "status", "--porcelain")


def test_its_scores_are_those_of_scores_json(project, page):
    metrics = json.loads(project.read("reports/scores.json"))
    own = metrics["gpt"]["val"]["bits_per_char"]
    assert f"needs {own:.3f} bits per character on val" in page.xpath("//p[@class='verdict']")[0].text
    header, *rows = cells(page.xpath("//section[@id='verdict']//table")[0])
    assert header[1:] == ["train", "val", "test"]
    shown = {row[0]: row[1:] for row in rows}
    for label, key in (("GPT with its n-grams", "gpt"), ("GPT without its n-grams", "network"),
                       ("bigram, learned", "bigram")):  # fmt: skip
        scores = metrics[key]  # those of the network alone are of val and test only
        expected = [f"{scores[name]['bits_per_char']:.3f}" if name in scores else "" for name in header[1:]]
        assert shown[label] == expected
    for label, key in (("n-grams of order 6", "ngram_6"), ("by frequency", "unigram"), ("ppmd", "ppmd")):
        assert shown[label][1:] == [f"{metrics['baselines'][split][key]:.3f}" for split in ("val", "test")]
    assert len(rows) == len(metrics["baselines"]["val"]) + len(["bigram", "gpt", "network"])


def test_every_sample_is_there_at_every_temperature(project, page):
    answers = json.loads((project.folder / "data/samples.json").read_text(encoding="utf-8"))["answers"]
    texts = [pre.text_content() for pre in page.xpath("//article//pre")]
    assert sorted(texts) == sorted(one["read"] + one["written"] for one in answers)
    keys = {f"{one['prompt']} {one['temperature']}" for one in answers}
    assert (
        set(page.xpath("//article/@data-sample")) == keys == set(page.xpath("//select[@id='choose-samples']//@value"))
    )


def test_each_character_has_the_colour_of_its_better_predictor(project, page):
    metrics = json.loads(project.read("reports/scores.json"))
    scores = CharScores.read(files_of(project.folder / "data/scores"))
    best = min(
        (name for name in metrics["baselines"]["val"] if name.startswith("ngram_")), key=metrics["baselines"]["val"].get
    )
    counted, learned, whole = (scores.nats(name, "val") / math.log(2) for name in (best, "network", "gpt"))
    section = page.xpath("//section[@id='predictors']")[0]
    spans = section.xpath("pre/span")
    text = "".join(span.text_content() for span in spans)
    at = (project.folder / "data/clean/text.txt").read_text(encoding="utf-8").index(text)
    assert at > 0
    numbers = [[float(part.split()[-1]) for part in span.get("title").split(", ")] for span in spans]
    start = next(
        i
        for i in range(len(counted) - len(spans) + 1)
        if np.allclose(learned[i : i + len(spans)], np.array(numbers)[:, 1], atol=0.006)
    )
    for i, (span, shown) in enumerate(zip(spans, numbers, strict=True), start=start):
        assert shown == pytest.approx([counted[i], learned[i], whole[i]], abs=0.006)
        chance = math.log2(json.loads(project.read("reports/cleaning.json"))["symbols"])
        margin = counted[i] - learned[i]
        level = sum(bool(abs(margin) >= bits) for bits in (1, 3))
        named = f"{'learned' if margin > 0 else 'counted'}{level}" if level else None
        assert span.get("class") == ("neither" if min(counted[i], learned[i]) > chance else named)
    shares = [float(word) for word in re.findall(r"([\d.]+) %", section.xpath("p")[0].text)]
    assert sum(shares) == pytest.approx(100, abs=1.1)


@needs_chromium
def test_a_browser_draws_every_chart_and_shows_one_choice_of_samples(project, page):
    with chromium() as browser, opened(browser, address(project)) as shown:
        expect(shown.locator("[data-chart] svg")).to_have_count(CHARTS)
        visible = shown.locator("article:visible")
        keys = {article.get_attribute("data-sample") for article in visible.all()}
        assert keys == {"0 0.8"}
        shown.get_by_label("Prompt").select_option("0 1.0")
        expect(shown.locator("article[data-sample='0 1.0']").first).to_be_visible()
        expect(shown.locator("article[data-sample='0 0.8']").first).to_be_hidden()


def test_without_a_run_there_is_one_sentence(project):
    (project.folder / "data/samples.json").unlink()
    printed = project.bukva("report", ok=False)
    assert "data/samples.json does not exist. Run `make repro` to create it." in printed
    assert "Traceback" not in printed
