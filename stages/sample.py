"""Stage sample: texts that the models write, before and after training."""

from pathlib import Path

from bukva.base.files import write_text
from bukva.config.load import read_params
from bukva.durability.cleanup import forget
from bukva.generation.samples import answer, page, unit_of
from bukva.pipeline.stages import trained_models
from bukva.stage import cli
from bukva.tracking.journal import journal
from bukva.training.device import prepare


def main(samples: Path) -> None:
    """Continue every prompt with every model, untrained and trained."""
    params = read_params()
    forget(params)
    with journal("sample", params) as log:
        folders = {model.label: model.folder for model in trained_models().values()}
        answers = answer(folders, params.sample, prepare(params.compute))
        write_text(samples, page(answers, params.sample, unit_of(folders)))
        log.artifact(samples)


if __name__ == "__main__":
    cli.run(main)
