"""MLflow runs as tests name them."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mlflow.entities import Run


def short_name(run: "Run") -> str:
    """The stage, or the name of a whole experiment."""
    return run.data.tags.get("bukva.stage", run.data.tags["bukva.experiment"])
