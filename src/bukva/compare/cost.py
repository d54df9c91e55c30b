"""How long trainings ran on this machine, which only their journals know."""

from bukva.compare.results import Result
from bukva.project.stages import stages, trained_models
from bukva.tracking.journal import read_journals


def stage_seconds(result: Result, model: str) -> float | None:
    """How long the newest run of the training stage with the parameters of this result took.

    None if no journal of this project has it.
    """
    stage = trained_models()[model].stage
    sections = ("download", "clean", "tokenize", "split", *stages()[stage].sections)
    wanted = {key: value for key, value in result.flat_params.items() if key.partition(".")[0] in sections}
    for journal in reversed(read_journals()):
        start = journal.start
        if start["stage"] == stage and not start["restored"] and wanted.items() <= start["params"].items():
            for record in reversed(journal.read()[0]):
                if record["record"] == "metrics" and "seconds" in record["values"]:
                    return float(record["values"]["seconds"])
    return None
