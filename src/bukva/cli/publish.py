"""MLflow gets what an experiment is worth: by stage publish, and by commands where DVC has skipped that stage."""

import contextlib

from bukva.config.load import read_params
from bukva.config.schema import Params
from bukva.core.errors import BukvaError


def publish_experiment(params: Params) -> None:
    """Bring MLflow up to date with this experiment; what is missing there is reported, and never an error."""
    from bukva.compare.groups import seed_group_tags
    from bukva.report.summary import summary
    from bukva.tracking.experiment import baseline
    from bukva.tracking.publish import publish
    from bukva.tracking.sync import explain

    files: dict[str, bytes] = {}
    try:
        parts = summary(baseline() or "")
        files["summary.md"] = "\n\n".join(f"# {title}\n\n{text}" for title, text in parts.items()).encode()
    except Exception as error:  # results of another experiment may contain anything
        print(f"MLflow gets no summary of this experiment. {explain(error)}")
    publish(params, seed_group_tags("gpt"), files)


def complete() -> None:
    """Do what stage publish would have done, where DVC has skipped it, because its inputs are those of dvc.lock.

    They are in a fresh clone that has just made again what its commit has.
    """
    from bukva.tracking.publish import was_skipped

    with contextlib.suppress(BukvaError, OSError):  # a folder without params.yaml, or with a mistake in it
        params = read_params()
        if was_skipped(params):
            publish_experiment(params)
