"""Which experiment made the files that are in the checkout now."""

from bukva.project.stages import recorded_stages
from bukva.tracking.reading import Journal, has_present_files, read_journals


def experiment_of_checkout() -> tuple[str, str] | None:
    """Name and key of the newest experiment whose reports are those of the checkout; None if none has a journal here.

    Its last journals of the stages that report must have the present files. A stage that did not change has none.
    """
    last: dict[tuple[str, str], dict[str, Journal]] = {}
    for journal in read_journals():
        stage = recorded_stages().get(journal.start["stage"])
        if stage and stage.kind == "report" and journal.status()[0] == "FINISHED":
            experiment = str(journal.start["experiment"]), journal.key
            journals = last.pop(experiment, {})  # the newest experiment is the last
            last[experiment] = {**journals, stage.name: journal}
    fitting = (experiment for experiment in reversed(last) if all(map(has_present_files, last[experiment].values())))
    return next(fitting, None)
