"""`bukva.load`: a trained model from a folder or from the registry of MLflow."""

import tempfile
from pathlib import Path

from bukva.config.schema import Compute
from bukva.core.errors import BukvaError
from bukva.models.device import prepare
from bukva.models.folder import CONFIG
from bukva.serving.writer import Writer
from bukva.tracking.models import SCHEME, fetch

USE = (
    "use the folder of a trained model, such as data/models/gpt after `make repro`, or a registered one, such as "
    "models:/bukva-gpt@best"
)


def load(model: str | Path) -> Writer:
    """A trained model, which writes and scores text:

        gpt = bukva.load("data/models/gpt")
        gpt.generate("Мой дядя", n_chars=100, seed=3)
        gpt.bits("Мой дядя самых честных правил")

    It computes on a GPU if there is one, and else on all cores, as stage sample does by default.

    Args:
        model: its folder, or its name in MLflow: models:/bukva-gpt@best, or with a version models:/bukva-gpt/3.

    Raises:
        BukvaError: it is not there, or is no trained model.
    """
    machine = prepare(Compute(device="auto", precision="auto", threads=0))
    if not str(model).startswith(SCHEME):
        return Writer.load(_checked(Path(model)), machine)
    with tempfile.TemporaryDirectory(prefix="bukva-") as folder:
        return Writer.load(_checked(fetch(str(model), Path(folder))), machine)


def _checked(folder: Path) -> Path:
    if not folder.is_dir():
        raise BukvaError(f"{folder}: no such folder; {USE}.")
    if not (folder / CONFIG).is_file():
        raise BukvaError(f"{folder}: not a trained model, because {CONFIG} is missing; {USE}.")
    return folder
