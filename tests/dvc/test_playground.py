"""bukva play: the page of the project's server on which one writes with its models, as somebody uses it."""

import re

import pytest
import requests
from browser import WAIT, check_everywhere, chromium, needs_chromium, opened
from playwright.sync_api import expect

from bukva.serving.app import LINKS

pytestmark = pytest.mark.nightly

SPEED = re.compile(r"First character after \d+ ms, then \d+ per second\.")


@pytest.fixture(scope="module")
def address(with_ngrams):
    """The address of a project whose GPT has n-grams with one experiment more."""
    with_ngrams.run("dvc", "exp", "run", "-n", "plain", "-S", "model.ngrams=none")
    with_ngrams.reset()
    with with_ngrams.playing() as address:
        for path, _ in LINKS:
            requests.get(address + path, timeout=WAIT / 1000)  # a browser does not wait until pages are built
        yield address


def wait_until_drawn(page):
    """Wait for all charts, and for the scores of both models in the playground."""
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    charts = page.locator("[data-chart]")
    expect(charts.locator("svg")).to_have_count(charts.count())
    for status in page.locator(".column .status").all():
        expect(status).to_contain_text("bits per character")


@needs_chromium
def test_one_address_leads_to_reports_and_to_mlflow_and_survives_f5_and_back(address):
    with chromium() as browser:
        page = browser.new_page()
        page.goto(address, timeout=WAIT)
        wait_until_drawn(page)
        page.get_by_role("link", name="plain").click()
        expect(page.get_by_role("heading", level=1)).to_contain_text(re.compile(r"^plain: \d\.\d{3} bits"))
        page.reload()
        wait_until_drawn(page)
        page.go_back()
        page.get_by_role("link", name="MLflow", exact=True).click()
        expect(page.get_by_role("button", name="Sort: gpt.val")).to_be_visible()
        page.go_back()
        expect(page.get_by_role("heading", name="Leaderboard")).to_be_visible()


@needs_chromium
@pytest.mark.parametrize("path", [path for path, _ in LINKS if path != "/mlflow"])  # which is a page of MLflow
def test_a_page_is_for_everybody_on_every_screen(address, path):
    check_everywhere(address + path, wait_until_drawn)


@needs_chromium
def test_a_browser_colours_what_is_typed_and_shows_what_both_models_write(address):
    with chromium() as browser, opened(browser, address + "/play") as page:
        text, columns = page.get_by_label("Text", exact=True), page.locator(".column")
        text.fill("семь пар")
        for column in columns.all():
            expect(column.locator("pre")).to_have_text("семь пар", use_inner_text=False)
            expect(column.locator(".status")).to_have_text(re.compile(r"Text: \d+\.\d\d bits per character\."))
            expect(column.locator(".next")).to_contain_text("Likeliest next:")
            assert column.locator("pre span[class^=b]").count() > 3
        places = [page.locator(place).bounding_box() for place in ("#text", "#behind")]
        assert places[0] == places[1]
        text.fill("семь♠ пар ♥♠")  # characters that no model knows
        for place in (page.locator("#behind"), columns.first.locator("pre")):
            expect(place.locator(".unknown")).to_have_text(["♠", "♥♠"])
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
        expect(columns.first.locator(".status")).to_have_text(SPEED)
        assert columns.first.locator("pre").text_content() != first
        columns.last.get_by_role("button", name="Continue from here").click()
        assert text.input_value() == columns.last.locator("pre").text_content()


@needs_chromium
def test_a_browser_stops_a_long_text_and_shows_an_error_as_a_sentence(address):
    with chromium() as browser, opened(browser, address + "/play", expected="400") as page:
        column = page.locator(".column").first
        page.get_by_label("Characters").fill("10000")
        page.get_by_role("button", name="Write", exact=True).click()
        expect(column.locator(".written span").first).to_be_visible()
        page.get_by_role("button", name="Stop").click()
        expect(page.get_by_role("button", name="Stop")).to_be_disabled()
        length = len(column.locator("pre").text_content())
        page.wait_for_timeout(300)
        assert len(column.locator("pre").text_content()) == length < 10_000
        column.locator("option").first.evaluate("one => { one.value = 'gone/gpt'; }")
        page.get_by_role("button", name="Write", exact=True).click()
        expect(column.locator(".status.error")).to_have_text(
            "Model gone/gpt is not available. Reload the page to see the available models."
        )
        expect(page.locator(".column").last.locator(".written span").first).to_be_visible()  # the other goes on
