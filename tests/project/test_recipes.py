"""Test that every recipe is valid, and that DVC turns its options into the values of its file."""

import shutil

import pytest
from dvc.utils.hydra import apply_overrides
from ruamel.yaml import YAML
from typer.testing import CliRunner

from bukva.cli.app import NO_RECIPE, app
from bukva.core.errors import BukvaError
from bukva.core.params import PARAMS, flatten, read_params, read_yaml
from bukva.core.schema import Model, TrainGPT, off_values
from bukva.project.commands import RECIPES
from tests.support.imports import ROOT, SHIPPED
from tests.support.repository import run_git

NAMES = sorted(path.stem for path in (ROOT / RECIPES).glob("*.yaml"))


@pytest.fixture(autouse=True)
def project(tmp_path, monkeypatch):
    shutil.copy(SHIPPED, tmp_path)
    shutil.copytree(ROOT / RECIPES, tmp_path / RECIPES)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def applied(name):
    """Apply a recipe with DVC, and return the values that it sets."""
    done = CliRunner().invoke(app, ["recipe", name])
    words = done.stdout.split()  # as a shell splits what `dvc exp run $(bukva recipe NAME)` passes on
    assert (done.exit_code, set(words[::2])) == (0, {"-S"})
    before = flatten(read_yaml())
    apply_overrides(PARAMS, words[1::2])
    read_params()
    after, keys = flatten(read_yaml()), {word.partition("=")[0] for word in words[1::2]}
    assert before == after | {key: before[key] for key in keys}
    return {key: after[key] for key in keys}


def listed(name):
    sections = read_yaml(RECIPES / f"{name}.yaml")
    return flatten({section: values for section, values in sections.items() if section != "others"})


def test_the_recipe_gpt_is_params_yaml_of_its_last_commit():
    recipe = f"{RECIPES}/gpt.yaml"
    edited = run_git(ROOT, "status", "--porcelain", "--", recipe)
    commit = run_git(ROOT, "log", "-1", "--format=%H", "--", recipe)  # later ones may have other parameters
    text = (ROOT / PARAMS).read_text(encoding="utf-8") if edited else run_git(ROOT, "show", f"{commit}:{PARAMS}")
    known = flatten(YAML(typ="safe").load(text))
    values = applied("gpt")
    assert values == {key: known.get(key, value) for key, value in values.items()}


@pytest.mark.parametrize("name", NAMES)
def test_a_recipe_gives_the_same_model_and_training_in_every_checkout(name):
    sections, kept = {"model": Model, "train_gpt": TrainGPT}, {"micro_batches", "processes", "seed"}
    wanted = {f"{section}.{key}" for section, schema in sections.items() for key in schema.model_fields.keys() - kept}
    values = applied(name)
    assert values.keys() == wanted | {"download.corpus", "baselines.max_order"}
    assert values == values | listed(name)


@pytest.mark.parametrize(
    "content",
    [
        "model:\n  ngram_orders: [3, 7]\nsample:\n  prompts: ['да', '1']\n  temperature: 1e-3\n",
        "others: off\ntrain_gpt:\n  grad_clip: 2.0\n",
    ],
)
def test_dvc_makes_of_the_options_what_the_file_says_and_turns_other_keys_off_if_it_says_so(content):
    (RECIPES / "mine.yaml").write_text(content, encoding="utf-8")
    off = off_values("train_gpt") if "others: off" in content else {}
    assert applied("mine") == {f"train_gpt.{key}": value for key, value in off.items()} | listed("mine")


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (None, f"Recipe mine does not exist. Use {', '.join(NAMES[:-1])} or {NAMES[-1]}"),
        ("model:\n  n_heads: 8\n", "recipes/mine.yaml, model.n_heads: this key is unknown (its value is 8). "),
        ("others: on\n", "recipes/mine.yaml, others: this key is unknown (its value is 'on'). Known keys: "),
        ("others: off\nmodel: 8\n", "recipes/mine.yaml, model: 8 (int) is invalid. The value should have keys"),
        ("sample:\n  prompts: [a b]\n", "recipes/mine.yaml, sample.prompts=['a b']: a shell would change a space"),
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
