"""Stage tokenize: works become one array of ids."""

from pathlib import Path

from bukva.base.files import read_json
from bukva.config.load import read_params
from bukva.encoding.prompts import check_prompts
from bukva.encoding.works import tokenize
from bukva.stage import cli
from bukva.tokenizers import VOCAB
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
