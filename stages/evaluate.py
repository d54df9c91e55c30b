"""Stage evaluate: score every model on every split in overlapping windows, next to the baselines."""

from bukva.backends.device import prepare
from bukva.core.files import write_json
from bukva.models.folder import load_models
from bukva.project.stages import trained_models
from bukva.scoring.char_scores import Baselines, CharScores, files_of, save_scores
from bukva.scoring.rows import chart_of, rows_of
from bukva.scoring.scores import describe, evaluate, headline, sampled
from bukva.text.held_out import HeldOut
from bukva.text.ids import check_lengths, load_lengths, load_splits
from stages import stage


def main() -> None:
    with stage.opened("evaluate") as run:
        splits, machine, trained = load_splits(run.path("split")), prepare(run.params.compute), trained_models()
        ngrams = run.path("ngrams")
        models, tokenizer = load_models({name: model.folder for name, model in trained.items()}, machine.device, ngrams)
        lengths = {name: len(ids) for name, ids in splits.items()}
        check_lengths(lengths, models["gpt"].block_size, "model.block_size")
        print("evaluate: scoring the models on every split", flush=True)
        text = HeldOut(splits, load_lengths(run.path("split")), tokenizer, ngrams)
        saved = CharScores.read(files_of(run.path("baselines")))
        result = evaluate(models, text, run.params.evaluate, Baselines.load(saved))
        if line := sampled(result, text):
            print(f"evaluate: {line}")
        about = describe(text, models, trained)
        save_scores(run.path("scores"), about, saved.works, text.chars, result.nats)
        chart = chart_of(rows_of(result.table, trained))
        write_json(run.path("score_table"), {**result.table, "chart": chart})
        write_json(run.path("metrics"), headline(result.table, reversed(trained)))


if __name__ == "__main__":
    stage.run(main)
