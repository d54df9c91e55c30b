"""Trained models for people who write with them, and for other programs."""

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bukva.serving.writer import Writer


def load(model: str | Path) -> "Writer":
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
    from bukva.core.errors import BukvaError
    from bukva.models.folder import CONFIG
    from bukva.serving.writer import Writer
    from bukva.tracking.models import SCHEME, fetch

    with tempfile.TemporaryDirectory(prefix="bukva-") as temporary:
        registered = str(model).startswith(SCHEME)
        folder = fetch(str(model), Path(temporary)) if registered else Path(model)
        if not (folder / CONFIG).is_file():
            raise BukvaError(
                f"{folder}: no trained model, because {CONFIG} is missing; use the folder of one, such as "
                "data/models/gpt after `make repro`, or a registered one, such as models:/bukva-gpt@best."
            )
        return Writer.load(folder)
