"""Which module imports which, read from the source: for the tests of layers and of DVC's dependencies."""

import ast
import json
import os
from collections.abc import Collection
from functools import cache
from pathlib import Path

from bukva.core.params import read_yaml
from bukva.core.schema import Params, off_values

ROOT = Path(__file__).parents[2]
SHIPPED = ROOT / ".bukva" / "tests" / "params.yaml"  # tests read these values, since the checkout may have others


def _write_shipped() -> None:
    """Write the values of tests/params.yaml and of the recipe `gpt`. Other keys are off, or as in the checkout."""
    listed, recipe = read_yaml(ROOT / "tests" / "params.yaml"), read_yaml(ROOT / "recipes" / "gpt.yaml")
    text = "# The values of params.yaml as shipped\n"
    for section, schema in Params.__annotations__.items():
        values = off_values(section) | recipe.get(section, {}) | listed.get(section, {})
        if others := schema.model_fields.keys() - values:
            values |= {key: read_yaml(ROOT / "params.yaml")[section][key] for key in others}
        text += f"{section}:\n"
        for key, value in values.items():
            text += f"  {key}: {value or repr(value) if isinstance(value, str) else json.dumps(value)}\n"
    if not SHIPPED.exists() or SHIPPED.read_text(encoding="utf-8") != text:
        SHIPPED.parent.mkdir(parents=True, exist_ok=True)
        own = SHIPPED.with_name(f"{os.getpid()}.yaml")  # workers of xdist write at the same time
        own.write_text(text, encoding="utf-8")
        own.replace(SHIPPED)


_write_shipped()


@cache
def modules() -> dict[str, Path]:
    """Every module of bukva and of the stages, by its dotted name."""
    found = {}
    for base, prefix in ((ROOT / "src" / "bukva", "bukva"), (ROOT / "stages", "stages")):
        for file in sorted(base.rglob("*.py")):
            parts = [prefix, *file.relative_to(base).with_suffix("").parts]
            found[".".join(part for part in parts if part != "__init__")] = file
    return found


@cache
def imported(name: str, *, while_typing: bool = False) -> frozenset[str]:
    """What one module imports, anywhere in it: modules of ours by full name, others by the first part."""
    tree = ast.parse(modules()[name].read_text(encoding="utf-8"))
    hidden = set[ast.AST]()
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test) and not while_typing:
            hidden.update(ast.walk(node))
    found = set[str]()
    for node in ast.walk(tree):
        if node in hidden:
            continue
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name} imports by dots"
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                found.add(whole if whole in modules() else str(node.module))
    return frozenset(item if item in modules() else item.split(".")[0] for item in found)


def reached(name: str, *, except_for: Collection[str] = ()) -> frozenset[str]:
    """Our modules that a module imports, directly or through others that are not excepted."""
    seen, waiting = set[str](), [name]
    while waiting:
        for item in imported(waiting.pop()):
            if item in modules() and item not in seen and not belongs(item, except_for):
                seen.add(item)
                waiting.append(item)
    return frozenset(seen)


def belongs(name: str, packages: Collection[str]) -> bool:
    """Whether a module is one of these packages or is in one; nothing is in `bukva` itself."""
    return any(name == package or (package != "bukva" and name.startswith(f"{package}.")) for package in packages)
