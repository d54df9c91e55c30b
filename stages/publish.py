"""Stage publish: send the results of all stages to MLflow, including stages that DVC restored from its cache.

It also prints how params.yaml differs from the last commit. If MLflow cannot be reached, it reports this problem, but
does not fail.
"""

from bukva.core.params import read_params
from bukva.project.revisions import RefusedError
from bukva.tracking.experiment import name_of_repro, print_uncommitted
from bukva.tracking.publish import publish
from stages import stage


def main() -> None:
    params = read_params()
    publish(params)
    try:
        print_uncommitted(params)
    except RefusedError as error:  # the results are complete, but the commit is unknown
        name = name_of_repro("")
        print(f"The commit of this experiment is unknown, so its name in MLflow is {name}. Reason: {error}")


if __name__ == "__main__":
    stage.run(main)
