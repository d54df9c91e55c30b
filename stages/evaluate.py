"""Stage evaluate: every model scored on every split, with the baselines."""

from pathlib import Path

from bukva.cli import stage as cli
from bukva.config.load import read_params
from bukva.core.files import write_json
from bukva.evaluation.characters import save_scores
from bukva.evaluation.held_out import HeldOut
from bukva.evaluation.rows import chart_of, rows_of
from bukva.evaluation.scores import describe, evaluate, headline
from bukva.models.device import prepare
from bukva.models.folder import load_models
from bukva.project.stages import trained_models
from bukva.report.figures import comparison as draw_comparison
from bukva.report.figures import losses as draw_losses
from bukva.text.collection import documents, read_table
from bukva.text.splits import check_lengths, load_lengths, load_splits
from bukva.tracking.journal import journal


def main(
    split: Path, clean: Path, scores: Path, score_table: Path, metrics: Path, losses: Path, comparison: Path
) -> None:
    """Score the models by the window rule, and draw their losses."""
    params = read_params()
    with journal("evaluate", params) as log:
        splits, machine, trained = load_splits(split), prepare(params.compute), trained_models()
        models, tokenizer = load_models({name: model.folder for name, model in trained.items()}, machine.device)
        lengths = {name: len(ids) for name, ids in splits.items()}
        check_lengths(lengths, models["gpt"].block_size, "model.block_size")
        print("evaluate: scoring the models on every split", flush=True)
        text = HeldOut(splits, load_lengths(split), tokenizer, models["gpt"].block_size)
        result = evaluate(models, text, params.evaluate)
        works, chars = list(documents(read_table(clean))), text.chars
        save_scores(scores, describe(text, models, trained, result.calibration), works, chars, result.nats)
        rows = rows_of(result.table, trained)
        write_json(score_table, {**result.table, "chart": chart_of(rows)})
        write_json(metrics, headline(result.table, reversed(trained)))
        draw_losses(trained.values(), result.table, losses)
        draw_comparison(rows, result.nats, list(chars.values())[-1], comparison)
        log.artifact(score_table)
        log.artifact(metrics)
        log.artifact(losses)
        log.artifact(comparison)


if __name__ == "__main__":
    cli.run(main)
