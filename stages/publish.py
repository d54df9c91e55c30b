"""Stage publish: completes MLflow from the files, also for stages that DVC restored from its cache."""

from bukva.cli import stage as cli
from bukva.config.load import read_params
from bukva.project.revisions import RefusedError
from bukva.tracking.experiment import name_of_repro, print_uncommitted
from bukva.tracking.publish import publish


def main() -> None:
    """Bring MLflow up to date with this experiment; what is missing there is reported, and never an error.

    The last line says what the experiment leaves in params.yaml.
    """
    params = read_params()
    publish(params)
    try:
        print_uncommitted(params)
    except RefusedError as error:  # the results are complete, but nothing says from which commit they are
        print(f"MLflow shows this experiment as {name_of_repro('')}. {error}")


if __name__ == "__main__":
    cli.run(main)
