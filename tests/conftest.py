"""Settings of all tests."""

import os

import hypothesis
import pytest

hypothesis.settings.register_profile("bukva", deadline=None, derandomize=True)
hypothesis.settings.load_profile("bukva")


@pytest.fixture(autouse=True, scope="session")
def _one_thread():
    import torch

    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
