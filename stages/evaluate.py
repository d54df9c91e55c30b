"""Stage evaluate: every model scored on every split, with the baselines."""

from pathlib import Path

from bukva.base.files import write_json
from bukva.config.load import read_params
from bukva.corpus.splits import check_lengths, load_splits
from bukva.durability.cleanup import forget
from bukva.evaluation.scores import evaluate
from bukva.models.folder import load_models
from bukva.pipeline.stages import trained_models
from bukva.report.figures import losses as draw_losses
from bukva.stage import cli
from bukva.tracking.journal import journal
from bukva.training.device import prepare


def main(split: Path, metrics: Path, losses: Path) -> None:
    """Score the models by the window rule, and draw their losses."""
    params = read_params()
    forget(params)
    with journal("evaluate", params) as log:
        splits, machine, trained = load_splits(split), prepare(params.compute), trained_models()
        models, tokenizer = load_models({name: model.folder for name, model in trained.items()}, machine.device)
        lengths = {name: len(ids) for name, ids in splits.items()}
        check_lengths(lengths, models["gpt"].block_size, "model.block_size")
        print("evaluate: scoring the models on every split", flush=True)
        scores = evaluate(models, tokenizer, splits, params.evaluate)
        write_json(metrics, scores)
        draw_losses(trained.values(), scores, losses)
        log.artifact(metrics)
        log.artifact(losses)


if __name__ == "__main__":
    cli.run(main)
