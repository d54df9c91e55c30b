"""The page that `dvc plots` writes, in a browser."""

import json
import subprocess
import sys

import pytest
from browser import chromium, needs_chromium, opened
from dvc_render.html import HTML
from playwright.sync_api import expect

from tests.support.imports import ROOT

FROM_WEB = (
    "<script>window.vegaEmbed = (place) => { document.querySelector(place).textContent = 'from the web'; };</script>"
)
SPEC = '{"data": {"values": [{"a": 2}, {"a": 3}]}, "mark": "point", "encoding": {"x": {"field": "a"}}}'


@needs_chromium
@pytest.mark.slow
def test_vega_comes_from_the_environment_and_from_the_web_only_where_it_is_not_installed(tmp_path):
    page = tmp_path / "dvc_plots" / "index.html"
    page.parent.mkdir()
    document = HTML((ROOT / ".dvc/plots/page.html").read_text(encoding="utf-8")).with_scripts(FROM_WEB)
    document.with_element(f"<div id='chart'></div><script>vegaEmbed('#chart', {SPEC});</script>")
    page.write_text(document.embed(), encoding="utf-8")
    with chromium() as browser:
        with opened(browser, f"file://{page}", expected="ERR_FILE_NOT_FOUND") as shown:
            expect(shown.locator("#chart")).to_have_text("from the web")
        (tmp_path / ".venv").mkdir()
        command = [sys.executable, "-m", "bukva.report.page"]
        script = subprocess.run(command, env={"PYTHONPATH": str(ROOT / "src")}, capture_output=True, check=True).stdout
        (tmp_path / ".venv" / "vega.js").write_bytes(script)
        with opened(browser, f"file://{page}") as shown:
            expect(shown.locator("#chart svg.marks")).to_have_count(1)


def test_the_scores_of_several_experiments_are_in_panels_of_their_own():
    chart = json.loads((ROOT / ".dvc/plots/scores.json").read_text(encoding="utf-8"))
    del chart["encoding"]["tooltip"]
    assert [name for name, channel in chart["encoding"].items() if channel["field"] == "rev"] == ["row"]
