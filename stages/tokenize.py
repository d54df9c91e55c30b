"""Stage tokenize: works become one array of ids."""

from pathlib import Path

from bukva.cli import stage as cli
from bukva.config.load import read_params
from bukva.core.files import read_json
from bukva.corpus.splits.encoding import tokenize
from bukva.text.prompts import check_prompts
from bukva.text.tokenizers import VOCAB
from bukva.tracking.journal import journal


def main(clean: Path, cleaning: Path, tokens: Path) -> None:
    """Find the vocabulary and encode every work."""
    params = read_params()
    with journal("tokenize", params) as log:
        found = tokenize(clean, tokens, params.tokenize, params.split)
        check_prompts(found.tokenizer, params.sample, params.evaluate, read_json(cleaning), params.model.block_size)
        log.metrics({"vocab_size": len(found.tokenizer), "ids": found.n_ids, "unknown_chars": found.n_unknown})
        log.artifact(tokens / VOCAB)
        print(f"tokenize: {found}")


if __name__ == "__main__":
    cli.run(main)
