"""README, docs/ and the notebooks name only what exists: files, headings, targets of make, parameters."""

import re

import pytest
from pages import DEV, PAGES, each_page, text
from sqlalchemy.engine import make_url

from bukva.core.params import read_yaml
from bukva.corpus.sources.formats import READERS
from bukva.project.stages import paths
from bukva.scoring.metrics import METRICS
from tests.support.imports import ROOT, modules

ADDRESS = re.compile(r"[a-z]+://")
FILE = re.compile(r"(?<![\w/.-])(?:[a-z_]+/)+[a-z_]+\.(?:py|md|yaml|json|csv|png)(?!\w)")
OPTION = re.compile(r"-S '?([a-z_.]+)=")
PARAMETERS = read_yaml(ROOT / "params.yaml")
PARAMETER = re.compile(rf"`((?:{'|'.join(PARAMETERS)})\.[a-z_0-9]+)")
MADE = ("data/", ".bukva/", *paths().values())  # by the pipeline, and not in git


def anchors(page):
    """The anchors that GitHub gives to the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", text(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@each_page(re.compile(r"\]\(([^)\s]+)\)").findall, [*PAGES, *DEV])
def test_a_relative_link_leads_to_a_file_and_its_heading(page, item):
    if ADDRESS.match(item):
        return
    path, _, anchor = item.partition("#")
    target = (page.parent / path).resolve() if path else page
    assert target.exists(), item
    assert not anchor or anchor in anchors(target), item


@each_page(FILE.findall)
def test_a_named_file_exists(page, item):
    if item.startswith(MADE):
        return
    homes = ROOT, ROOT / "src" / "bukva", page.parent
    assert any((home / item).exists() for home in homes), item


@each_page(re.compile(r"(?:^ +|`)make ([a-z][a-z-]*)", re.MULTILINE).findall)
def test_a_target_of_make_exists(page, item):
    assert re.search(rf"^{item}:", (ROOT / "Makefile").read_text(), re.MULTILINE), item


@each_page(lambda page: [*OPTION.findall(page), *PARAMETER.findall(page)])
def test_a_parameter_of_an_experiment_or_of_a_sentence_exists(page, item):
    section, key = item.split(".")
    assert key in PARAMETERS[section], item


@each_page(re.compile(r"\bbukva(?:\.[a-z_]+)+").findall)
def test_a_named_module_exists(page, item):
    assert item in modules() or item.rpartition(".")[0] in modules(), item


@each_page(re.compile(r"-m (stages\.[a-z_]+)").findall)
def test_a_named_stage_has_its_script(page, item):
    assert item in modules(), item


@pytest.mark.parametrize(
    ("page", "names"),
    [("text-reference.md", READERS), ("glossary.md", [f"| {metric.label}" for metric in METRICS.values()])],
)
def test_a_page_has_each_member_of_a_table_of_the_code(page, names):
    assert [name for name in names if name not in text(ROOT / "docs" / page)] == []


@each_page(re.compile(r"postgresql(?:\+\w+)?://[^\s`]+|postgresql(?:\+\w+)?:///\w+").findall)
def test_the_driver_of_an_address_of_a_database_is_installed(page, item):
    make_url(item).get_dialect().import_dbapi()
