"""A stage reruns only when something changes that can change its bytes."""

import pytest

pytestmark = pytest.mark.slow

TRAINED = ["train-gpt", "evaluate", "sample", "publish"]

# file, text, another text: none of these edits can change an output
HARMLESS = [
    ("src/bukva/config/messages.py", "is unknown; use", "is not known; choose"),  # messages
    ("src/bukva/base/errors.py", "check the permissions", "look at the permissions"),
    ("src/bukva/durability/checkpoints.py", "no checkpoint at", "checkpoint failed at"),
    ("src/bukva/durability/__init__.py", '"""', '"""In short: '),  # docstrings
    ("src/bukva/tracking/journal.py", '"""', '"""In short: '),
    ("src/bukva/stage/cli.py", '"""', '"""In short: '),
    ("src/bukva/stage/arguments.py", "Folder of", "The folder of"),  # a help text
    ("src/bukva/config/section.py", "10**12", "10**13"),  # a limit
]


def test_an_edited_message_docstring_help_text_or_limit_reruns_nothing(project):
    for file, old, new in HARMLESS:
        project.edit(file, old, new)
    assert "up to date" in project.run("dvc", "status")
    assert project.repro() == []


def test_an_optimizer_that_updates_differently_reruns_the_gpt_and_what_follows_it(project):
    project.set(
        {"model": {"ngrams": "none"}}
    )  # with n-grams, so short a training keeps the weights that it started with
    project.repro()
    project.edit("src/bukva/training/optimizers/muon.py", "MOMENTUM = 0.95", "MOMENTUM = 0.9")
    assert project.repro() == TRAINED


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("src/bukva/training/optimizers/muon.py", ["train-gpt"]),
        ("src/bukva/training/optimizers/adamw.py", ["train-bigram", "train-gpt"]),
        ("src/bukva/models/attention.py", ["train-gpt", "evaluate", "sample"]),
        ("src/bukva/generation/samples.py", ["sample"]),
    ],
)
def test_edited_code_reruns_the_stages_that_run_it(project, file, expected):
    add_comment(project, file)
    assert project.repro("--dry") == expected  # as long as the outputs of each stage stay as they are


def add_comment(project, file):
    with (project.folder / file).open("a", encoding="utf-8") as code:
        code.write("# a comment\n")
