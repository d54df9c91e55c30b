"""Stage publish: completes MLflow from the files, the stages that DVC restored from its cache among them."""

from bukva import cli
from bukva.params import read_params
from bukva.tracking.publish import publish
from bukva.training.leftovers import forget


def main() -> None:
    """Bring MLflow up to date with this experiment; what is missing there is told, and never an error."""
    params = read_params()
    forget(params)
    publish(params)


if __name__ == "__main__":
    cli.run(main)
