"""README, docs/ and the notebooks, as the tests of tests/docs read them."""

from functools import cache

import cells
import pytest

from tests.support.imports import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted(cells.FOLDER.glob("*.ipynb"))]
DEV = sorted((ROOT / "docs" / "dev").glob("*.md"))  # what was chosen and measured, with the commands of its time


@cache
def text(page):
    if page.suffix == ".ipynb":
        return "\n".join(cells.source(cell) for cell in cells.of(page, "markdown"))
    return page.read_text(encoding="utf-8")


def each_page(find, pages=PAGES):
    """One test for each page and for each thing that `find` finds on it."""
    cases = [(page, item) for page in pages for item in sorted(set(find(text(page))))]
    return pytest.mark.parametrize(("page", "item"), cases, ids=lambda value: getattr(value, "name", value))
