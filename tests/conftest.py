"""Settings of all tests."""

import os
import signal

import hypothesis
import pytest
from downloads import download_params
from works import encoded, split

from bukva.corpus.cleaning.clean import clean_collection
from bukva.corpus.cleaning.rule_sets import rule_set
from bukva.corpus.sources.download import download
from bukva.project.revisions import HOOK_VARIABLES
from bukva.text.ids import Ids
from tests.support.imports import ROOT

SAMPLE = ROOT / "data" / "sample"

os.environ.setdefault("NUMBA_CACHE_DIR", str(ROOT / ".bukva" / "numba"))  # of every process, in any folder

# Otherwise tests would commit to the repository of the user if a hook of git runs them.
os.environ["GIT_CONFIG_GLOBAL"] = str(ROOT / "tests" / "gitconfig")
for variable in HOOK_VARIABLES:
    os.environ.pop(variable, None)

# Tests run on the CPU: forks do not survive a GPU that is in use. tests/backends/cuda/test_gpu.py starts a process that
# has the GPU.
os.environ["BUKVA_TEST_GPUS"] = os.environ.get("CUDA_VISIBLE_DEVICES", "0")
os.environ["CUDA_VISIBLE_DEVICES"] = ""

# A job in the background ignores Ctrl-C, and so would every command that it starts.
signal.signal(signal.SIGINT, signal.default_int_handler)

hypothesis.settings.register_profile("bukva", deadline=None, derandomize=True)
hypothesis.settings.load_profile("bukva")


@pytest.fixture(autouse=True, scope="session")
def _one_thread():
    import torch

    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS") or 1))


@pytest.fixture(scope="session")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Ids], int]:
    """split -> ids, and the size of the vocabulary: rules notes, tail .9/.05/.05."""
    root = tmp_path_factory.mktemp("embedded")
    download(download_params(corpus="sample", path=SAMPLE), root / "raw", lambda *_: None, pytest.fail)
    clean_collection(root / "raw", root / "clean", rule_set("notes"), "")
    text = encoded(root, "char", split(0.9, 0.05, 0.05))
    return text.splits, len(text.tokenizer)
