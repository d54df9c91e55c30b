"""The command that turns a recipe into options of `dvc exp run`."""

from typing import Annotated

import typer

from bukva.core.errors import BukvaError

NO_RECIPE = "--no-such-recipe"  # an option that DVC lacks


def recipe(
    name: Annotated[str, typer.Argument(help="A file of recipes/, without .yaml.", show_default=False)] = "",
) -> None:
    """Print a recipe as options: dvc exp run $(bukva recipe NAME). Without a name, list the recipes.

    Further options change it: dvc exp run $(bukva recipe ngrams) -S model.n_head=8. A recipe is a file of a few
    parameters in recipes/.
    """
    from bukva.compare.recipes import descriptions, options

    if not name:
        for each, description in descriptions().items():
            print(f"{each:10}{description}")
        return
    try:
        print(*options(name))
    except BukvaError:
        print(NO_RECIPE)  # a shell goes on after a mistake in $(...), and DVC must not run the default
        raise
