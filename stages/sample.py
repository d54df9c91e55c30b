"""Stage sample: let every model continue the prompts, with its initial weights and with its trained weights."""

from bukva.backends.device import prepare
from bukva.core.files import read_json, write_json, write_text
from bukva.core.words import count
from bukva.evaluation.samples import answer, page, to_json
from bukva.project.stages import trained_models
from bukva.text.prompts import chosen_prompts
from bukva.text.tokenizers import load_tokenizer
from stages import stage


def main() -> None:
    with stage.opened("sample") as run:
        params, samples = run.params.sample, run.path("samples")
        folders = {model.label: model.folder for model in trained_models().values()}
        tokenizer = load_tokenizer(run.path("tokens"))
        prompts, why = chosen_prompts(tokenizer, params, read_json(run.path("cleaning")))
        print(f"sample: {why}")
        continuations = answer(folders, prompts, params, prepare(run.params.compute), run.path("ngrams"))
        write_text(samples, page(continuations, prompts, params, tokenizer.unit, why))
        write_json(run.path("answers"), to_json(continuations, prompts, params))
        print(f"sample: each model continued {count(len(prompts), 'prompt')}; the texts are in {samples}")


if __name__ == "__main__":
    stage.run(main)
