"""bukva play: the page of the project's server on which one writes with its models, as somebody uses it."""

import json
import re
import signal

import pytest
import requests
from browser import SCHEMES, WIDTHS, check, chromium, needs_chromium, opened
from lxml import html
from playwright.sync_api import expect

pytestmark = pytest.mark.nightly

OPEN = re.compile(r"Serving \(Ctrl-C to stop\): (http://127\.0\.0\.1:\d+)/play\n")
N_CHARTS = 2  # of a report without a study of attention
WAIT = 60_000  # milliseconds, for a page that is built and drawn on a busy machine
SPEED = re.compile(r"First character after \d+ ms, then \d+ per second\.")


@pytest.fixture(scope="module")
def served(with_ngrams):
    """A project whose GPT has n-grams with one experiment more, and its playground."""
    copied = with_ngrams
    copied.run("dvc", "exp", "run", "-n", "plain", "-S", "model.ngrams=none")
    copied.reset()
    running = copied.start("python", "-m", "bukva", "play", PYTHONPATH="src")
    assert running.reaches(lambda: OPEN.search(running.printed)), running.printed
    yield copied, OPEN.search(running.printed)
    running.process.send_signal(signal.SIGINT)
    assert running.wait() in (0, 130)
    assert "Traceback" not in running.printed


@pytest.fixture(scope="module")
def address(served):
    return served[1][1] + "/play"


def post(served, path, content):
    answer = requests.post(served[1][1] + path, json=content, timeout=60)
    return [json.loads(line) for line in answer.text.splitlines()]


def keys(served):
    page = html.fromstring(requests.get(served[1][1] + "/play", timeout=60).text)
    return page.xpath("(//select)[1]//option/@value")


def test_experiments_write_with_their_own_weights(served):
    keys(served)
    ours, theirs = (
        post(served, "/play/score", {"model": key, "text": "семь пар"}) for key in ("workspace/gpt", "plain/gpt")
    )
    assert [text for text, _ in ours[0]["scored"]] == [text for text, _ in theirs[0]["scored"]]
    assert ours[0]["scored"] != theirs[0]["scored"]


@needs_chromium
def test_one_address_leads_to_reports_and_to_mlflow_and_survives_f5_and_back(served):
    with chromium() as browser:
        page = browser.new_page()
        overview = page.get_by_role("heading", name="Leaderboard")
        page.goto(served[1][1])
        expect(page.locator("[data-chart] svg")).to_have_count(2, timeout=WAIT)
        page.get_by_role("link", name="plain").click()
        expect(page.get_by_role("heading", level=1)).to_contain_text(
            re.compile(r"^plain: \d\.\d{3} bits"), timeout=WAIT
        )
        expect(page.locator("[data-chart] svg")).to_have_count(N_CHARTS, timeout=WAIT)
        assert page.get_by_role("link", name="plain in MLflow").get_attribute("href") == "/mlflow?run=plain"
        page.reload()
        expect(page.locator("[data-chart] svg")).to_have_count(N_CHARTS, timeout=WAIT)
        page.go_back()
        expect(overview).to_be_visible(timeout=WAIT)
        page.get_by_role("link", name="MLflow", exact=True).click()
        expect(page.get_by_role("button", name="Sort: gpt.val")).to_be_visible(timeout=WAIT)
        page.go_back()
        expect(overview).to_be_visible(timeout=WAIT)


@needs_chromium
def test_the_pages_of_experiments_are_for_everybody_on_every_screen(served):
    with chromium() as browser:
        for path, n_charts in (("/", 2), ("/runs/plain", N_CHARTS)):
            for width in WIDTHS:
                for scheme in SCHEMES:
                    with opened(browser, served[1][1] + path, width, scheme, bypass_csp=True) as page:
                        expect(page.locator("[data-chart] svg")).to_have_count(n_charts, timeout=WAIT)
                        check(page)


@needs_chromium
def test_a_browser_colours_what_is_typed_and_shows_what_both_models_write(served, address):
    with chromium() as browser, opened(browser, address) as page:
        text, columns = page.get_by_label("Text", exact=True), page.locator(".column")
        text.fill("семь пар")
        for column in columns.all():
            expect(column.locator("pre")).to_have_text("семь пар", use_inner_text=False)
            expect(column.locator(".status")).to_have_text(re.compile(r"Text: \d+\.\d\d bits per character\."))
            expect(column.locator(".next")).to_contain_text("Likeliest next:")
            assert column.locator("pre span[class^=b]").count() > 3
        first = [[span.text_content(), span.get_attribute("class")] for span in columns.first.locator("pre span").all()]
        box = [[span.text_content(), span.get_attribute("class")] for span in page.locator("#behind span").all()]
        assert box == first  # what is typed has the colours of the first model
        places = [page.locator(place).bounding_box() for place in ("#text", "#behind")]
        assert places[0] == places[1]
        text.fill("семь\n" * 9)
        text.evaluate("box => { box.scrollTop = box.scrollHeight; }")  # as after a paste, before the colours are there
        expect(page.locator("#behind")).to_have_text(re.compile("(семь\\s*){9}"))
        tops = page.evaluate("['text', 'behind'].map((id) => document.getElementById(id).scrollTop)")
        assert tops[0] == tops[1] > 0
        text.fill("семь♠ пар ♥♠")  # characters that no model knows
        for place in (page.locator("#behind"), columns.first.locator("pre")):
            expect(place.locator(".unknown")).to_have_text(["♠", "♥♠"])
            expect(place).to_have_text("семь♠ пар ♥♠")
        for column in columns.all():
            expect(column.locator(".status")).to_contain_text('Not in the vocabulary, ignored: "♠", "♥".')
        text.fill("семь пар")
        page.get_by_label("Characters").fill("31")
        text.press("Control+Enter")
        for column in columns.all():
            expect(column.locator(".status")).to_have_text(SPEED, use_inner_text=False)
            assert len(column.locator(".written").text_content()) == 31
        first = columns.first.locator("pre").text_content()
        page.get_by_role("button", name="Write another").click()
        expect(page.get_by_label("Seed")).to_have_value("1338")
        expect(columns.first.locator(".status")).to_have_text(SPEED)
        assert columns.first.locator("pre").text_content() != first
        columns.last.get_by_role("button", name="Continue from here").click()
        assert text.input_value() == columns.last.locator("pre").text_content()


@needs_chromium
def test_a_browser_stops_a_long_text_and_shows_an_error_as_a_sentence(served, address):
    with chromium() as browser, opened(browser, address, expected="400") as page:
        column = page.locator(".column").first
        page.get_by_label("Characters").fill("10000")
        page.get_by_role("button", name="Write", exact=True).click()
        expect(column.locator(".written span").first).to_be_visible()
        page.get_by_role("button", name="Stop").click()
        expect(page.get_by_role("button", name="Stop")).to_be_disabled()
        length = len(column.locator("pre").text_content())
        page.wait_for_timeout(300)
        assert len(column.locator("pre").text_content()) == length < 10_000
        page.get_by_label("Top-p").fill("")
        page.get_by_role("button", name="Write", exact=True).click()
        assert page.evaluate("document.activeElement.name") == "top_p"  # the browser asks for it
        page.get_by_label("Top-p").fill("1")
        column.locator("option").first.evaluate("one => { one.value = 'gone/gpt'; }")
        page.get_by_role("button", name="Write", exact=True).click()
        expect(column.locator(".status.error")).to_have_text(
            "Model gone/gpt is not available. Reload the page to see the available models."
        )
        expect(page.locator(".column").last.locator(".written span").first).to_be_visible()  # the other goes on


@needs_chromium
def test_the_page_is_for_everybody_on_every_screen(address):
    with chromium() as browser:
        for width in WIDTHS:
            for scheme in SCHEMES:
                with opened(browser, address, width, scheme, bypass_csp=True) as page:
                    expect(page.locator(".status").last).to_contain_text("bits per character")
                    check(page)
