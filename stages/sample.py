"""Stage sample: what both models write, before and after training."""

from pathlib import Path
from typing import Annotated

from typer import Argument

from bukva import cli
from bukva.compute import prepare
from bukva.files import write_text
from bukva.params import read_params
from bukva.report.samples import answer, page
from bukva.tracking.journal import journal
from bukva.training.leftovers import forget


def main(
    bigram: Annotated[Path, Argument(help="Folder of stage train-bigram.")],
    gpt: Annotated[Path, Argument(help="Folder of stage train-gpt.")],
    samples: Annotated[Path, Argument(help="Markdown to write.")],
) -> None:
    """Let both models go on from the same prompts with the same seed."""
    params = read_params()
    forget(params)
    with journal("sample", params) as log:
        machine = prepare(params.compute)
        answers = answer({"bigram": bigram, "GPT": gpt}, params.sample, machine)
        write_text(samples, page(answers, params.sample))
        log.artifact(samples)


if __name__ == "__main__":
    cli.run(main)
