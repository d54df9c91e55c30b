"""Test that every recipe is valid, and that DVC turns its options into the values of its file."""

import shutil

import pytest
from dvc.utils.hydra import apply_overrides
from imports import ROOT, SHIPPED
from typer.testing import CliRunner

from bukva.cli.app import NO_RECIPE, app
from bukva.core.errors import BukvaError
from bukva.core.params import PARAMS, flatten, read_params, read_yaml
from bukva.core.schema import Model, TrainGPT
from bukva.project.commands import RECIPES

NAMES = sorted(path.stem for path in (ROOT / RECIPES).glob("*.yaml"))


@pytest.fixture(autouse=True)
def project(tmp_path, monkeypatch):
    """Copy the parameters and recipes of the project."""
    shutil.copy(SHIPPED, tmp_path)
    shutil.copytree(ROOT / RECIPES, tmp_path / RECIPES)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def keys(name):
    return flatten(read_yaml(RECIPES / f"{name}.yaml"))


def test_the_recipe_gpt_is_params_yaml():
    known = flatten(read_yaml())
    assert keys("gpt") == {key: known[key] for key in keys("gpt")}


@pytest.mark.parametrize("name", NAMES)
def test_a_recipe_gives_the_same_model_and_training_in_every_checkout(name):
    sections, kept = {"model": Model, "train_gpt": TrainGPT}, {"micro_batches", "processes", "seed"}
    wanted = {f"{section}.{key}" for section, schema in sections.items() for key in schema.model_fields.keys() - kept}
    assert keys(name).keys() == wanted | {"download.corpus", "baselines.max_order"}


@pytest.mark.parametrize("name", [*NAMES, "mine"])
def test_dvc_makes_of_the_options_what_the_file_says(name):
    (RECIPES / "mine.yaml").write_text(
        "model:\n  ngram_orders: [3, 7]\nsample:\n  prompts: ['да', '1']\n  temperature: 1e-3\n", encoding="utf-8"
    )
    expected = flatten(read_yaml()) | keys(name)
    done = CliRunner().invoke(app, ["recipe", name])
    words = done.stdout.split()  # as a shell splits what `dvc exp run $(bukva recipe NAME)` passes on
    assert (done.exit_code, set(words[::2])) == (0, {"-S"})
    apply_overrides(PARAMS, words[1::2])
    read_params()
    assert flatten(read_yaml()) == expected


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (None, f"Recipe mine does not exist. Use {', '.join(NAMES[:-1])} or {NAMES[-1]}"),
        (
            "model:\n  n_heads: 8\n",
            "recipes/mine.yaml, model.n_heads: this key is unknown (its value is 8). Did you mean `n_head`?",
        ),
        (
            "sample:\n  prompts: [a b]\n",
            "recipes/mine.yaml, sample.prompts=['a b']: a shell would change a space, * or ? in the value. ",
        ),
    ],
)
def test_a_mistake_in_a_recipe_is_one_sentence_and_dvc_does_not_run_the_default(content, sentence):
    if content is not None:
        (RECIPES / "mine.yaml").write_text(content, encoding="utf-8")
    done = CliRunner().invoke(app, ["recipe", "mine"])
    assert isinstance(done.exception, BukvaError)
    assert str(done.exception).startswith(sentence)
    assert len(str(done.exception).splitlines()) == 1
    assert done.stdout == f"{NO_RECIPE}\n"
