"""A wheel of bukva in an empty environment: trained models are read there, and nothing needs the clone."""

import json
import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest
import torch

import bukva
from bukva.models.folder import save_model
from bukva.models.gpt import GPT, GPTConfig
from bukva.text.tokenizers import CharTokenizer
from tests.support.imports import ROOT

pytestmark = pytest.mark.nightly

TOKENIZER = CharTokenizer(sorted("\n абвг"))
CONFIG = GPTConfig(len(TOKENIZER), 2, 1, 6, 7, 0.0)
LOADED = """
import bukva, json, sys
gpt = bukva.load(sys.argv[1])
print(json.dumps([gpt.generate("аб", n_chars=11, seed=3), gpt.bits("абвгабвг"), bukva.__file__]))
"""


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """The folder of an empty environment in which only a wheel of this checkout was installed."""
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(["git", "clone", "-q", ROOT, folder / "clone"], check=True)
    pip_wheel = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip_wheel, "-w", folder, folder / "clone"], check=True)
    [wheel] = folder.glob("*.whl")
    venv.create(folder / "environment", with_pip=True)
    locks = [option for name in ("requirements", "numerics") for option in ("-c", ROOT / f"{name}.lock")]
    pip = [folder / "environment/bin/pip", "install", "-q", "--disable-pip-version-check", *locks, wheel]
    subprocess.run(pip, check=True)
    return folder / "environment"


def run(environment, folder, *command):
    """What a command of the environment prints, in a folder that is no clone."""
    clean = {"HOME": str(folder), "PATH": f"{environment / 'bin'}:/usr/bin:/bin"}
    kept = {name: os.environ[name] for name in ("TMPDIR", "CUDA_VISIBLE_DEVICES") if name in os.environ}
    return subprocess.run(command, cwd=folder, env=clean | kept, capture_output=True, text=True, check=False)


def test_a_model_is_loaded_from_a_wheel_and_writes_as_it_does_here(environment, tmp_path):
    torch.manual_seed(1)
    weights = {name: dict(GPT(CONFIG).state_dict()) for name in ("best", "initial")}
    save_model(model := tmp_path / "gpt", CONFIG, TOKENIZER, weights, {"torch": "2", "arithmetic": "abc"})
    done = run(environment, tmp_path, "python", "-c", LOADED, str(model))
    assert done.returncode == 0, done.stderr
    written, bits, file = json.loads(done.stdout.splitlines()[-1])
    here = bukva.load(model)
    assert written == here.generate("аб", n_chars=11, seed=3)
    assert bits == pytest.approx(here.bits("абвгабвг"), abs=1e-4)
    assert Path(file).is_relative_to(environment)


def test_a_command_that_needs_a_clone_says_so_in_one_sentence(environment, tmp_path):
    done = run(environment, tmp_path, "bukva", "ui")
    assert done.returncode == 1
    [sentence] = done.stderr.splitlines()
    assert "this folder has no params.yaml" in sentence
    assert "clone of bukva" in sentence
    assert not list(tmp_path.iterdir())
