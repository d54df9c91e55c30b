"""A stage reruns only when something changes that can change its bytes."""

import pytest

pytestmark = pytest.mark.slow

TRAINED = ["train-gpt", "evaluate", "sample", "publish"]

# file, text, another text: none of them can change an output
HARMLESS = {
    "a message about params.yaml": ("src/bukva/config/messages.py", "is unknown; use", "is not known; choose"),
    "a message about a disk": ("src/bukva/base/errors.py", "check the permissions", "look at the permissions"),
    "a message about checkpoints": ("src/bukva/durability/checkpoints.py", "no checkpoint at", "checkpoint failed at"),
    "the docstring of a package": ("src/bukva/durability/__init__.py", '"""', '"""In short:  '),
    "the docstring of the journal": ("src/bukva/tracking/journal.py", '"""', '"""In short:  '),
    "the docstring of the command line": ("src/bukva/stage/cli.py", '"""', '"""In short:  '),
    "a help text": ("src/bukva/stage/arguments.py", "Folder of", "The folder of"),
    "a limit of a parameter": ("src/bukva/config/schema.py", "10**12", "10**13"),
}


def test_an_edited_message_docstring_help_text_or_limit_reruns_nothing(project):
    for what, (file, old, new) in HARMLESS.items():
        project.edit(file, old, new)
        assert "up to date" in project.run("dvc", "status"), what
    assert project.repro() == []


def test_an_optimizer_that_updates_differently_reruns_the_gpt_and_what_follows_it(project):
    project.edit("src/bukva/training/optimizers/muon.py", "MOMENTUM = 0.95", "MOMENTUM = 0.9")
    assert project.repro() == TRAINED


def test_a_comment_in_an_optimizer_reruns_only_the_gpt_because_its_bytes_stay(project):
    add_comment(project, "src/bukva/training/optimizers/muon.py")
    assert project.repro() == ["train-gpt"]


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("src/bukva/training/optimizers/muon.py", ["train-gpt"]),
        ("src/bukva/training/optimizers/adamw.py", ["train-bigram", "train-gpt", "evaluate"]),  # it trains one, too
        ("src/bukva/models/attention.py", ["train-gpt", "evaluate", "sample"]),
        ("src/bukva/models/bigram.py", ["train-bigram", "evaluate", "sample"]),
        ("src/bukva/report/style.py", ["evaluate"]),
        ("src/bukva/generation/samples.py", ["sample"]),
        ("src/bukva/corpus/cleaning.py", ["clean"]),
    ],
)
def test_edited_code_reruns_the_stages_that_run_it(project, file, expected):
    add_comment(project, file)
    assert project.repro("--dry") == expected  # as long as the outputs of each stage stay as they are


def test_an_edited_text_reruns_the_stages_behind_it(project):
    project.edit("data/sample/prose/skazki/1.txt", "а", "о")
    assert project.repro("split") == ["download", "clean", "tokenize", "split"]


def add_comment(project, file):
    with (project.folder / file).open("a", encoding="utf-8") as code:
        code.write("# a comment\n")
