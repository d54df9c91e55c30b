"""Docstrings stand at public doors and stay short, so that a module is mostly its code."""

import ast
import io
import tokenize
from collections import defaultdict

import pytest

from tests.support.imports import ROOT

MODULES = sorted((ROOT / "src" / "bukva").glob("*/**/*.py"))
NO_CODE = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
MOST = 0.3  # lines of docstrings for each line of code


def docstrings(tree):
    """Yield the name and the lines of every docstring."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            yield getattr(node, "name", ""), range(node.body[0].lineno, node.body[0].end_lineno + 1)


def lines(text):
    """Return the number of lines with code, and with docstrings."""
    documented = {line for _, span in docstrings(ast.parse(text)) for line in span}
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    code = {line for t in tokens if t.type not in NO_CODE for line in range(t.start[0], t.end[0] + 1)}
    return len(code - documented), len(documented)


def test_a_package_has_at_most_three_lines_of_docstrings_for_ten_of_code():
    packages = defaultdict(lambda: [0, 0])
    for module in MODULES:
        package = module.relative_to(ROOT / "src").parts[1]
        for kind, n in enumerate(lines(module.read_text(encoding="utf-8"))):
            packages[package][kind] += n
    too_many = {package: f"{n} on {code}" for package, (code, n) in packages.items() if n > MOST * code}
    assert not too_many


@pytest.mark.parametrize("module", MODULES, ids=str)
def test_a_private_function_has_at_most_one_line(module):
    found = docstrings(ast.parse(module.read_text(encoding="utf-8")))
    assert not [name for name, span in found if name.startswith("_") and not name.endswith("__") and len(span) > 1]
