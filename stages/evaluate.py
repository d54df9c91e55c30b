"""Stage evaluate: both models scored on every split, beside the floors; and what attention does in the GPT."""

from pathlib import Path
from typing import Annotated

import pandas as pd
from typer import Argument

from bukva import cli
from bukva.compute import prepare
from bukva.evaluation.attention.study import study
from bukva.evaluation.scores import evaluate
from bukva.files import write_json
from bukva.modelfolder import load_model
from bukva.params import read_params
from bukva.report.attention import attention_report
from bukva.report.figures import losses
from bukva.text.splitting import load_parts, refuse_short
from bukva.tracking.journal import journal
from bukva.training.leftovers import forget


def main(
    split: Annotated[Path, Argument(help="Folder of stage split.")],
    bigram: Annotated[Path, Argument(help="Folder of stage train-bigram.")],
    gpt: Annotated[Path, Argument(help="Folder of stage train-gpt.")],
    bigram_curve: Annotated[Path, Argument(help="Curve of stage train-bigram.")],
    gpt_curve: Annotated[Path, Argument(help="Curve of stage train-gpt.")],
    metrics_file: Annotated[Path, Argument(help="JSON to write: scores, floors, the window rule.")],
    figure: Annotated[Path, Argument(help="PNG to write: both models' losses by step.")],
    attention: Annotated[Path, Argument(help="Folder to write: figures of attention in the GPT, and their numbers.")],
) -> None:
    """Score both models by the window rule, draw their losses, and look into the GPT's attention."""
    params = read_params()
    forget(params)
    with journal("evaluate", params) as log:
        parts = load_parts(split)
        machine = prepare(params.compute)
        table, tokenizer = load_model(bigram, "best", machine.device)
        trained, untrained = (load_model(gpt, state, machine.device)[0] for state in ("best", "initial"))
        refuse_short({part: len(ids) for part, ids in parts.items()}, trained.block_size, "model.block_size")
        print("evaluate: scoring both models on every split", flush=True)
        metrics = evaluate(table, trained, parts, params.evaluate)
        write_json(metrics_file, metrics)
        losses({"bigram": pd.read_csv(bigram_curve), "gpt": pd.read_csv(gpt_curve)}, metrics, figure)
        log.artifact(metrics_file)
        print("evaluate: looking into the GPT's attention", flush=True)
        found = study({"untrained": untrained, "trained": trained}, tokenizer, parts, params.evaluate, machine)
        attention_report(found, attention)
        log.artifact(figure)
        log.artifact(attention)


if __name__ == "__main__":
    cli.run(main)
