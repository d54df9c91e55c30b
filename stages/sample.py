"""Stage sample: texts that the models write, before and after training."""

from pathlib import Path

from bukva.cli import stage as cli
from bukva.config.load import read_params
from bukva.core.files import read_json, write_json, write_text
from bukva.generation.samples import answer, page, to_json
from bukva.models.device import prepare
from bukva.project.stages import trained_models
from bukva.text.prompts import chosen_prompts
from bukva.text.tokenizers import load_tokenizer
from bukva.tracking.journal import journal


def main(tokens: Path, cleaning: Path, samples: Path, answers: Path) -> None:
    """Continue every prompt with every model, untrained and trained."""
    params = read_params()
    with journal("sample", params) as log:
        folders = {model.label: model.folder for model in trained_models().values()}
        tokenizer = load_tokenizer(tokens)
        prompts = chosen_prompts(tokenizer, params.sample, read_json(cleaning))
        given = answer(folders, prompts.texts, params.sample, prepare(params.compute))
        write_text(samples, page(given, params.sample, tokenizer.unit, prompts.why))
        write_json(answers, to_json(given, params.sample))
        log.artifact(samples)
        print(f"sample: {len(prompts.texts)} prompts, continued by each model: {samples}")


if __name__ == "__main__":
    cli.run(main)
