"""Docstrings stand at public doors and stay short, so that a module is mostly its code."""

import ast
from collections import Counter

from tests.support.imports import ROOT

PACKAGES = ROOT / "src" / "bukva"
MOST = 0.3  # lines of docstrings for each line of code


def docstrings(text):
    """Yield the name of what has a docstring, and the lines of that."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            yield getattr(node, "name", ""), text.splitlines()[node.body[0].lineno - 1 : node.body[0].end_lineno]


def is_code(line):
    return bool(line.strip()) and not line.lstrip().startswith("#")


def test_a_package_has_at_most_three_lines_of_docstrings_for_ten_of_code_and_a_private_function_at_most_one():
    documented, code, long = Counter(), Counter(), []
    for module in PACKAGES.glob("*/**/*.py"):
        text, package = module.read_text(encoding="utf-8"), module.relative_to(PACKAGES).parts[0]
        code[package] += sum(map(is_code, text.splitlines()))
        for name, lines in docstrings(text):
            documented[package] += len(lines)
            code[package] -= sum(map(is_code, lines))
            if len(lines) > 1 and name.startswith("_") and not name.endswith("__"):
                long.append(f"{module.name}: {name}")
    assert not [f"{package}: {n} on {code[package]}" for package, n in documented.items() if n > MOST * code[package]]
    assert not long
