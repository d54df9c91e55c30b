"""Notebooks without Jupyter: their cells are run in one namespace, as a notebook runs them.

`PYTHONPATH=src python tests/cells.py` runs all of the lesson and stores the outputs, which GitHub shows.
"""

import ast
import base64
import contextlib
import io
import json
from pathlib import Path
from typing import Any

import torch
from PIL import Image

FOLDER = Path(__file__).parents[1] / "notebooks"
LESSON, ATTENTION = FOLDER / "lesson.ipynb", FOLDER / "attention.ipynb"

Cell = dict[str, Any]
Output = dict[str, Any]


def read(notebook: Path) -> dict[str, Any]:
    return dict(json.loads(notebook.read_text(encoding="utf-8")))


def of(notebook: Path, kind: str) -> list[Cell]:
    return [cell for cell in read(notebook)["cells"] if cell["cell_type"] == kind]


def source(cell: Cell) -> str:
    return "".join(cell["source"])


def run(code: list[Cell], **constants: object) -> list[list[Output]]:
    """Run code cells one after the other; returns the outputs of each. Constants replace those of the first cell."""
    namespace: dict[str, object] = {"__name__": "__main__"}
    outputs = []
    for count, cell in enumerate(code, start=1):
        outputs.append(_run(cell, namespace, count))
        if count == 1:
            namespace |= constants
    return outputs


def store() -> None:
    torch.set_num_threads(1)  # sums then have one order
    notebook = read(LESSON)
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    for count, (cell, outputs) in enumerate(zip(code, run(code), strict=True), start=1):
        cell |= {"execution_count": count, "outputs": outputs}
    LESSON.write_text(json.dumps(notebook, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def _run(cell: Cell, namespace: dict[str, object], count: int) -> list[Output]:
    """Run one cell: what it prints, and the value of the expression at its end."""
    body = ast.parse(source(cell)).body
    last = body.pop() if isinstance(body[-1], ast.Expr) else None
    name, printed, outputs = f"code cell {count}", io.StringIO(), list[Output]()
    with contextlib.redirect_stdout(printed):
        exec(compile(ast.Module(body, []), name, "exec"), namespace)
        value = eval(compile(ast.Expression(last.value), name, "eval"), namespace) if last else None  # type: ignore
    if text := printed.getvalue():
        outputs.append({"name": "stdout", "output_type": "stream", "text": text.splitlines(keepends=True)})
    if value is not None:
        data, metadata = _shown(value)
        outputs.append({"data": data, "execution_count": count, "metadata": metadata, "output_type": "execute_result"})
    return outputs


def _shown(value: Any) -> tuple[Output, Output]:
    """A value as a notebook shows it, and the size of a picture: a chart as PNG, anything else as text."""
    if not hasattr(value, "_repr_mimebundle_"):
        return {"text/plain": repr(value).splitlines(keepends=True)}, {}
    data, metadata = value._repr_mimebundle_()
    packed = io.BytesIO()  # the same picture in a quarter of the bytes, because vl-convert prefers speed
    Image.open(io.BytesIO(data["image/png"])).save(packed, "PNG", optimize=True)
    picture = base64.b64encode(packed.getvalue()).decode()
    return {"image/png": picture, "text/plain": [f"alt.{type(value).__name__}(...)"]}, metadata


if __name__ == "__main__":
    store()
