"""Stage tokenize: works become one array of ids."""

from pathlib import Path

from bukva.base.files import read_json
from bukva.config.load import read_params
from bukva.encoding.prompts import check_prompts
from bukva.encoding.works import tokenize
from bukva.stage import cli
from bukva.tracking.journal import journal


def main(clean: Path, cleaning: Path, tokens: Path) -> None:
    """Find the vocabulary and encode every work."""
    params = read_params()
    with journal("tokenize", params) as log:
        tokenizer, n_ids = tokenize(clean, tokens, params.tokenize, params.split)
        check_prompts(tokenizer, params.sample, params.evaluate, read_json(cleaning))
        log.metrics({"vocab_size": len(tokenizer), "ids": n_ids})
        log.artifact(tokens / "vocab.json")
        print(f"tokenize: {n_ids:,} ids, vocabulary of {len(tokenizer)}")


if __name__ == "__main__":
    cli.run(main)
