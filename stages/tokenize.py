"""Stage tokenize: works become one array of ids."""

from bukva.cli import stage
from bukva.core.files import read_json
from bukva.corpus.splits.encoding import tokenize
from bukva.text.prompts import check_prompts, chosen_prompts
from bukva.text.tokenizers import VOCAB


def main() -> None:
    """Find the vocabulary and encode every work."""
    with stage.opened("tokenize") as run:
        params, tokens = run.params, run.path("tokens")
        if params.split.duplicates != "keep":
            print("tokenize: looking for text that stands in two works", flush=True)
        found = tokenize(run.path("clean"), tokens, params.tokenize, params.split)
        chosen_prompts(found.tokenizer, params.sample, read_json(run.path("cleaning")))  # stage sample comes last
        check_prompts(found.tokenizer, params.sample)
        run.log.metrics({"vocab_size": len(found.tokenizer), "ids": found.n_ids, "unknown_chars": found.n_unknown})
        run.log.artifact(tokens / VOCAB)
        if n := found.n_repeated:
            decided_by = "split.duplicates, split.duplicate_chars"
            print(f"tokenize: removed {n:,} characters of repeats from train ({decided_by})")
        if n := found.n_unknown:
            done = "removed" if params.tokenize.unknown == "drop" else "replaced"
            print(f"tokenize: {done} {n:,} characters that train lacks (tokenize.vocabulary, tokenize.unknown)")
        print(f"tokenize: {found.n_ids:,} ids, vocabulary of {len(found.tokenizer)}")


if __name__ == "__main__":
    stage.run(main)
