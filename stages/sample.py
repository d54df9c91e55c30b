"""Stage sample: texts that the models write, before and after training."""

from bukva.backends.device import prepare
from bukva.cli import stage
from bukva.core.files import read_json, write_json, write_text
from bukva.generation.samples import answer, page, to_json
from bukva.project.stages import trained_models
from bukva.text.prompts import chosen_prompts
from bukva.text.tokenizers import load_tokenizer


def main() -> None:
    """Continue every prompt with every model, untrained and trained."""
    with stage.opened("sample") as run:
        params, samples = run.params.sample, run.path("samples")
        folders = {model.label: model.folder for model in trained_models().values()}
        tokenizer = load_tokenizer(run.path("tokens"))
        prompts, why = chosen_prompts(tokenizer, params, read_json(run.path("cleaning")))
        print(f"sample: {why}")
        given = answer(folders, prompts, params, prepare(run.params.compute), run.path("ngrams"))
        write_text(samples, page(given, prompts, params, tokenizer.unit, why))
        write_json(run.path("answers"), to_json(given, prompts, params))
        run.log.artifact(samples)
        if n := sum(prompts[number] != read for number, read in {(one["prompt"], one["read"]) for one in given}):
            print(f"sample: changed {n} prompts with characters outside the vocabulary (sample.unknown)")
        print(f"sample: {len(prompts)} prompts, continued by each model: {samples}")


if __name__ == "__main__":
    stage.run(main)
