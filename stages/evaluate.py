"""Stage evaluate: both models scored on every split, beside the floors."""

from pathlib import Path
from typing import Annotated

import pandas as pd
from typer import Argument

from bukva import cli
from bukva.compute import prepare
from bukva.evaluation.scores import evaluate
from bukva.files import write_json
from bukva.modelfolder import load_model
from bukva.params import read_params
from bukva.report.figures import losses
from bukva.text.splitting import load_parts, refuse_short
from bukva.tracking.journal import journal


def main(
    split: Annotated[Path, Argument(help="Folder of stage split.")],
    bigram: Annotated[Path, Argument(help="Folder of stage train-bigram.")],
    gpt: Annotated[Path, Argument(help="Folder of stage train-gpt.")],
    bigram_curve: Annotated[Path, Argument(help="Curve of stage train-bigram.")],
    gpt_curve: Annotated[Path, Argument(help="Curve of stage train-gpt.")],
    metrics_file: Annotated[Path, Argument(help="JSON to write: scores, floors, the window rule.")],
    figure: Annotated[Path, Argument(help="PNG to write: both models' losses by step.")],
) -> None:
    """Score both models by the window rule and draw their losses."""
    params = read_params()
    with journal("evaluate", params) as log:
        parts = load_parts(split)
        machine = prepare(params.compute)
        models = {name: load_model(folder)[0].to(machine.device) for name, folder in (("bigram", bigram), ("gpt", gpt))}
        block_size = models["gpt"].block_size
        refuse_short({part: len(ids) for part, ids in parts.items()}, block_size, "model.block_size")
        metrics = evaluate(models["bigram"], models["gpt"], parts, params.evaluate)
        write_json(metrics_file, metrics)
        losses({"bigram": pd.read_csv(bigram_curve), "gpt": pd.read_csv(gpt_curve)}, metrics, figure)
        log.artifact(metrics_file)
        log.artifact(figure)


if __name__ == "__main__":
    cli.run(main)
