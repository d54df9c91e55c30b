"""Stage tokenize: build the vocabulary, and encode all works as one array of the ids of characters, bytes or tokens."""

from bukva.core.files import read_json
from bukva.core.words import count
from bukva.corpus.splits import tokenize
from bukva.text.prompts import check_prompts, chosen_prompts
from stages import stage


def main() -> None:
    with stage.opened("tokenize") as run:
        params, tokens = run.params, run.path("tokens")
        if params.split.duplicates != "keep":
            print("tokenize: looking for text that occurs in two works", flush=True)
        tokenizer, n_ids, n_repeated = tokenize(run.path("clean"), tokens, params.tokenize, params.split)
        # check the prompts here, because stage sample only runs after the training
        chosen_prompts(tokenizer, params.sample, read_json(run.path("cleaning")))
        check_prompts(tokenizer, params.sample)
        if n_repeated:
            cut = count(n_repeated, "character")
            print(f"tokenize: removed {cut} of repeated passages from train (split.duplicates)")
        print(f"tokenize: {count(n_ids, 'id')}, vocabulary of {count(len(tokenizer), 'entry', 'entries')}")


if __name__ == "__main__":
    stage.run(main)
