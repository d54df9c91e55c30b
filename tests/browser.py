"""Pages in Chromium, as people see them. Tests that need it are skipped, with a reason, where it is not installed."""

import itertools
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect, sync_playwright

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
WIDTHS = {390: 844, 1280: 900, 1920: 1080}  # and heights: a phone, a laptop, a large screen
WAIT = 120_000  # milliseconds, for a page that is built and drawn on a busy machine
SCHEMES = ("light", "dark")
SERIOUS = ("serious", "critical")  # what axe-core calls so

# what makes the whole page wider than the screen
TOO_WIDE = """() => document.documentElement.scrollWidth <= innerWidth ? null : [...document.querySelectorAll("body *")]
    .filter((one) => one.getBoundingClientRect().right > innerWidth && !one.closest("svg, .wide"))
    .map((one) => one.outerHTML.slice(0, 100))"""

expect.set_options(timeout=WAIT)
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed: the pages are not looked at")


@contextmanager
def chromium() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM)
        yield browser
        browser.close()


@contextmanager
def opened(
    browser: Browser, address: str, width=1280, scheme="light", *, bypass_csp=False, expected=None
) -> Iterator[Page]:
    """A page; in the end there must be no other error in its console than `expected`, and no request to elsewhere."""
    size = {"width": width, "height": WIDTHS[width]}
    context = browser.new_context(viewport=size, color_scheme=scheme, bypass_csp=bypass_csp)
    context.set_default_timeout(WAIT)
    page, said, asked = context.new_page(), [], []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(address)
    yield page
    said = [message for message in said if not (expected and expected in message)]
    assert not said, said
    server = address if address.startswith("file:") else "/".join([*address.split("/")[:3], ""])
    outside = [url for url in asked if not url.startswith((server, "data:", "blob:", "file:"))]
    assert not outside, outside
    context.close()


def check_everywhere(address: str, is_drawn: Callable[[Page], None]) -> None:
    """On every screen, nothing of a page is wider than the screen, and axe-core finds nothing serious."""
    with chromium() as browser:
        for width, scheme in itertools.product(WIDTHS, SCHEMES):
            with opened(browser, address, width, scheme, bypass_csp=True) as page:
                is_drawn(page)
                wide = page.evaluate(TOO_WIDE)
                assert wide is None, f"wider than the screen: {wide}"
                found = [each for each in Axe().run(page).response["violations"] if each["impact"] in SERIOUS]
                assert not found, [
                    (each["id"], each["help"], [part["html"] for part in each["nodes"]]) for each in found
                ]
