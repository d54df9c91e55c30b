"""Tests of the commands `bukva check`, `plan` and `attention`."""

import os
import re
from pathlib import Path

import pytest
from plans import write_project
from typer.testing import CliRunner

from bukva.cli import planning
from bukva.cli.app import app
from bukva.core.errors import BukvaError
from bukva.core.params import PARAMS
from bukva.models.folder import save_model
from bukva.models.gpt import GPT, GPTConfig
from bukva.project.stages import paths, trained_models
from bukva.text.tokenizers import load_tokenizer


@pytest.fixture
def project(tmp_path, monkeypatch):
    """Create a project with a tiny split text and one thread. `bukva plan` briefly measures two toy sizes in it."""
    write_project(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(planning, "LADDER", [(1, 32, 1), (1, 64, 1)])
    monkeypatch.setattr(planning, "LEAST_SECONDS", 1e-9)
    return tmp_path


def mistake(*arguments):
    """Return the error message of a command."""
    done = CliRunner().invoke(app, list(arguments))
    assert isinstance(done.exception, BukvaError)
    return str(done.exception)


def test_check_names_what_dvc_cannot_read_in_the_folder_of_texts(project):
    books = project / "books" / "c"
    books.mkdir(parents=True)
    (project / "books" / "a.txt").symlink_to(project / PARAMS)
    (project / "books" / "d").symlink_to(project)
    text = (project / PARAMS).read_text(encoding="utf-8")
    for path in ("nowhere", "a" * 5000, "~nobody-of-this-name/a", "books"):
        (project / PARAMS).write_text(text.replace("  path: data/sample", f"  path: {path}"), encoding="utf-8")
        assert path == "books" or "does not exist. DVC needs it even if no stage reads it" in mistake("check")
    (project / "rules").mkdir(exist_ok=True)
    (project / "rules" / "example.yaml").touch()
    assert CliRunner().invoke(app, ["check"]).exit_code == 0
    os.mkfifo(books / "b.txt")
    assert mistake("check") == "books/c/b.txt: is a pipe, a socket or a device. Remove it."
    (books / "b.txt").unlink()
    (books / ".b").symlink_to("nowhere")
    assert mistake("check") == "books/c/.b: is a broken link. Remove it."
    (books / ".b").unlink()
    Path(os.fsdecode(os.fsencode(books) + b"/\xe0.txt")).touch()
    assert mistake("check") == r"books/c/\udce0.txt: the file name is not UTF-8. Rename the file."


def test_a_plan_is_proposed(project):
    done = CliRunner().invoke(app, ["plan", "1h"])
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("plan: 1 layer, 32 channels, ")
    assert re.search(r"\nTo train this model: `dvc exp run -S model.n_layer=1 .*-S train_gpt.n_steps=\d+", done.stdout)
    assert "train_gpt.patience" in done.stdout  # an hour of training on 307 characters overfits


def save_gpt():
    """Save a GPT in the folder where the pipeline saves it."""
    tokenizer = load_tokenizer(Path(paths()["tokens"]))
    config = GPTConfig(len(tokenizer), 1, 1, 4, 11, 0.0)
    weights = dict(GPT(config).state_dict())
    save_model(trained_models()["gpt"].folder, config, tokenizer, {"best": weights, "initial": weights})


@pytest.mark.slow
def test_attention_is_drawn_of_a_trained_gpt(project):
    save_gpt()
    done = CliRunner().invoke(app, ["attention"])
    assert done.exit_code == 0, done.output
    assert done.stdout.endswith("attention: wrote the charts and attention.json to reports/attention\n")
    assert (project / "reports/attention/weights_trained.png").exists()


def test_what_is_not_made_yet_is_one_sentence(project):
    assert mistake("attention") == "data/models/gpt: the GPT is not trained yet. Run `dvc repro train-gpt` to train it."
    for file in (project / paths()["split"]).iterdir():
        file.unlink()
    assert mistake("plan", "1h") == "The text is not split yet, so data/split is incomplete. Run `dvc repro split`."
