"""What pydantic does not check by itself: names of pieces of code, and lists without repetition.

A parameter that names a piece of code accepts the keys of the table of those pieces. The table is read from the source
of its module, without importing it: config is below every other package, and importing torch takes seconds in a light
stage. So an activation, an optimizer or a tokenizer is declared once.
"""

import ast
import functools
from pathlib import Path
from typing import Any

from pydantic import AfterValidator, BeforeValidator, Discriminator, Tag
from pydantic_core import PydanticCustomError

PACKAGE = Path(__file__).parents[1]
RULE_SETS = PACKAGE / "corpus" / "cleaning" / "rules"


@functools.cache
def keys_of(module: str, table: str) -> tuple[str, ...]:
    """The keys of a dict, or the items of a tuple, that is a literal at the top level of a module.

    Args:
        module: a path below src/bukva, such as models/gpt.py.
        table: the name of the dict or tuple.

    Raises:
        LookupError: the module has no such table.
    """
    tree = ast.parse((PACKAGE / module).read_text(encoding="utf-8"))
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if name == table:
                return _keys(value)
            case ast.AnnAssign(target=ast.Name(id=name), value=value) if name == table:
                return _keys(value)
    raise LookupError(f"{module} has no table {table}")


def rule_sets() -> tuple[str, ...]:
    """The values of clean.rules: auto, the rule sets in corpus/cleaning/rules, none, and file (a file of the user)."""
    return ("auto", *sorted(file.stem for file in RULE_SETS.glob("*.yaml")), "none", "file")


def one_of(module: str, table: str) -> BeforeValidator:
    """Accept the keys of a table only."""
    return BeforeValidator(lambda value: _known(value, keys_of(module, table)))


def one_rule_set() -> BeforeValidator:
    """Accept a value of clean.rules only."""
    return BeforeValidator(lambda value: _known(value, rule_sets()))


def _keys(value: ast.expr | None) -> tuple[str, ...]:
    items = value.keys if isinstance(value, ast.Dict) else value.elts if isinstance(value, ast.Tuple) else []
    return tuple(ast.literal_eval(item) for item in items if item)


def _known(value: Any, names: tuple[str, ...]) -> Any:
    if value not in names:
        raise PydanticCustomError("unknown_name", "unknown", {"names": list(names)})
    return value


def _each_once(items: list[Any]) -> list[Any]:
    if len(set(items)) < len(items):
        raise PydanticCustomError("repeated", "repeated")
    return items


EACH_ONCE = AfterValidator(_each_once)

# A key that takes `auto` or a list: Annotated[Annotated[Literal["auto"], *AUTO] | Annotated[list[...], LIST], EITHER].
# So a mistake in the list gives one error about its item, not a second one about `auto`.


def _auto(value: Any) -> Any:
    if value != "auto":
        raise PydanticCustomError("neither", "should be auto or a list")
    return value


TAGS = "is auto", "is a list"  # pydantic shows them in the location of an error; sentences leave them out
AUTO = BeforeValidator(_auto), Tag(TAGS[0])
LIST = Tag(TAGS[1])
EITHER = Discriminator(lambda value: TAGS[isinstance(value, list)])
