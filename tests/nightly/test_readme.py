"""README from top to bottom as printed: a fresh clone, its own environment, and numerics that are not ours.

The scores are those of docs/reference. Takes some ten minutes and 3 GB of disk.
"""

import os
import re
import subprocess

import pytest
import requests
from ruamel.yaml import YAML

from bukva.core.files import read_json
from tests.support.imports import ROOT
from tests.support.running import Running

pytestmark = pytest.mark.nightly

README = re.sub(r" \\\n\s+", " ", (ROOT / "README.md").read_text(encoding="utf-8"))
PROGRAM = re.compile(r"(?:make|dvc|bukva|git|\.) ")  # other indented lines are samples of models
# other numerics give other numbers, and may give another verdict: of a line with one, only this much is the same
VERDICT = re.compile(r"settings \S+ against \w+|^On this val text, model \S+")
NOT_HERE = {
    "git clone": "the fixture does it",
    "make test": "this test would be part of it; make check comes last instead",
    "dvc exp run -S download.corpus=url": "an address to fill in",
}
NOT_INHERITED = "DVC_", "MLFLOW_", "BUKVA_", "PYTHON", "VIRTUAL_ENV"
TEXT = "The sea was quiet, and the boat went slowly along the shore while the rain fell on the {} house.\n"
SECONDS = 3600  # limit for each command
TRAINED = {"make repro": "baseline", "dvc exp run $(bukva recipe ngrams)": "ngrams"}  # to experiments of docs/reference
TOLERANCE = 0.02  # bits: twice what another seed or another processor changes (reports/noise_floor.json)


@pytest.fixture
def clone(tmp_path):
    """A clone whose commit asks for float32, as another processor would choose, and has a text of its user."""
    folder = tmp_path / "bukva"
    subprocess.run(["git", "clone", "-q", ROOT, folder], check=True)
    yaml, file = YAML(), folder / "params.yaml"
    params = yaml.load(file)
    params["compute"]["precision"] = "fp32"
    yaml.dump(params, file)
    subprocess.run(["git", "commit", "-qam", "another machine"], cwd=folder, check=True)
    books = folder / "path/to/your/books"
    books.mkdir(parents=True)
    words = ("old", "white", "empty", "last", "small", "stone", "dark")
    (books / "sea.txt").write_text("".join(TEXT.format(words[i * i % 7] + str(i)) for i in range(300)))
    return folder


def test_readme_works_as_printed(clone, tmp_path):
    kept = {name: value for name, value in os.environ.items() if not name.startswith(NOT_INHERITED)}
    env = kept | {"DVC_SITE_CACHE_DIR": str(tmp_path / "site-cache"), "GIT_CONFIG_GLOBAL": "/dev/null"}
    ran, recorded = [], read_json(ROOT / "docs/reference/reference.json")

    def run(command):
        ran.append(command)
        active = ". .venv/bin/activate && " if ". .venv/bin/activate" in ran else ""
        running = Running(("bash", "-c", active + command), clone, env)
        if command == "bukva ui":
            return first_page(running)
        assert running.wait(SECONDS) == 0, f"{command}:\n{running.printed}"
        if experiment := TRAINED.get(command):
            scores, expected = read_json(clone / "reports/metrics.json"), recorded[experiment]["metrics"]
            assert scores["gpt"] == pytest.approx(expected["gpt"], abs=TOLERANCE)
        return running.printed

    chosen = [step for step in steps() if not step[0].startswith(tuple(NOT_HERE))]
    assert len(steps()) - len(chosen) == len(NOT_HERE)
    [experiment] = walk(chosen, run).values()
    assert TRAINED.keys() <= set(ran)
    assert "HEAD has no results. Using the experiment `baseline` instead." in run(f"bukva compare HEAD {experiment}")
    run("dvc exp apply baseline")
    assert "up to date" in run("dvc repro")
    run("make check")


def steps():
    """Return the commands of README in order, each with the lines that README shows below it."""
    found = []
    for block in re.findall(r"(?:^    .*\n)+", README, re.MULTILINE):
        has_prompts = block.startswith("    $ ")
        for line in re.findall(r"^    (.+)", block, re.MULTILINE):
            command = re.sub(r"\s+#.*", "", line.removeprefix("$ "))
            if has_prompts and not line.startswith("$ "):
                found[-1][1].append(line)
            elif PROGRAM.match(command):
                found.append((command, []))
    return found


def pattern(line):
    """Return a regular expression for lines of this kind: with other numbers, another verdict, any text for `...`."""
    if verdict := VERDICT.search(line):
        return re.escape(verdict[0])
    return re.sub(r"\d+", r"\\d+", re.escape(line)).replace(r"\.\.\.", ".*")


def walk(chosen, run):
    """Run commands, check what they print, and return the names that DVC gives to experiments, by those in README."""
    renamed = {}

    def here(line):
        for ours, theirs in renamed.items():
            line = line.replace(ours, theirs)
        return line

    for command, shown in chosen:
        printed = run(here(command))
        print(f"$ {here(command)}", printed, sep="\n", flush=True)
        names = re.search(r"experiment '(\S+)'", "\n".join(shown)), re.search(r"Ran experiment\(s\): (\S+)", printed)
        if all(names):
            renamed[names[0][1]] = names[1][1]
        for line in map(here, shown):
            assert re.search(pattern(line), printed, re.MULTILINE), f"{command}: {line!r} is not in\n{printed}"
    return renamed


def first_page(server):
    assert server.prints("http://127.0.0.1:"), server.printed
    page = requests.get(re.search(r"http://127\.0\.0\.1:\d+", server.printed)[0], timeout=120)
    server.press_ctrl_c()
    server.wait()
    assert page.status_code == 200, page.text
    assert "baseline" in page.text
    return page.text
