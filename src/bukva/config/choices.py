"""What pydantic does not check by itself: names of pieces of code, and lists without repetition.

A parameter that names a piece of code accepts the keys of the table of those pieces. The table is read from the source
of its module, without importing it: config is below every other package, and importing torch takes seconds in a light
stage. So an activation, an optimizer or a tokenizer is declared once.
"""

import ast
import functools
from pathlib import Path
from typing import Any

from pydantic import AfterValidator, BeforeValidator
from pydantic_core import PydanticCustomError

PACKAGE = Path(__file__).parents[1]
RULE_SETS = PACKAGE / "corpus" / "rules"


@functools.cache
def keys_of(module: str, table: str) -> tuple[str, ...]:
    """The keys of a dict, or the items of a tuple, that is a literal at the top level of a module.

    Args:
        module: a path below src/bukva, such as models/transformer.py.
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
    """The cleaning rule sets: the files of corpus/rules, and none."""
    return (*sorted(file.stem for file in RULE_SETS.glob("*.yaml")), "none")


def one_of(module: str, table: str) -> BeforeValidator:
    """Accept the keys of a table only."""
    return BeforeValidator(lambda value: _known(value, keys_of(module, table)))


def one_rule_set() -> BeforeValidator:
    """Accept the name of a cleaning rule set only."""
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
