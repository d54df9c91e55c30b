"""Stage publish: completes MLflow from the files, also for stages that DVC restored from its cache."""

from bukva.cli import stage as cli
from bukva.config.load import read_params
from bukva.tracking.experiment import print_uncommitted
from bukva.tracking.publish import publish


def main() -> None:
    """Bring MLflow up to date with this experiment; what is missing there is reported, and never an error.

    The last line says what the experiment leaves in params.yaml.
    """
    params = read_params()
    publish(params)
    print_uncommitted(params)


if __name__ == "__main__":
    cli.run(main)
