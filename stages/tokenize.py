"""Stage tokenize: works become one array of ids."""

from pathlib import Path
from typing import Annotated

from typer import Argument

from bukva import cli
from bukva.params import read_params
from bukva.text.encoding import tokenize
from bukva.text.prompts import refuse_unreadable
from bukva.tracking.journal import journal


def main(
    clean: Annotated[Path, Argument(help="Folder of stage clean.")],
    tokens: Annotated[Path, Argument(help="Folder to write: vocab.json, and ids.npy of all works in their order.")],
) -> None:
    """Find the alphabet and encode every work."""
    params = read_params()
    with journal("tokenize", params) as log:
        tokenizer, n_ids = tokenize(clean, tokens, params.tokenize, params.split)
        refuse_unreadable(tokenizer, params.sample, params.evaluate)
        log.metrics({"vocab_size": len(tokenizer), "ids": n_ids})
        log.artifact(tokens / "vocab.json")
        print(f"tokenize: {n_ids:,} ids over {len(tokenizer)} characters")


if __name__ == "__main__":
    cli.run(main)
