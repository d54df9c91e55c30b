"""The section of the report page about attention: the study that `bukva attention` made, if it is of this model."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bukva.core.files import read_json, sha256
from bukva.project.stages import trained_models
from bukva.report.attention import NUMBERS
from bukva.report.page.attention_charts import bars, context, weights_of_head
from bukva.report.page.charts import Spec
from bukva.report.page.experiment import Experiment


def attention(experiment: Experiment, folder: Path) -> tuple[dict[str, Any], dict[str, dict[str, Spec]]]:
    """What the heads of the GPT do, and the charts; or a sentence that says how to make them.

    folder: of the study.
    """
    path, weights = folder / NUMBERS, experiment.folder / trained_models()["gpt"].folder / "best.safetensors"
    numbers = read_json(path) if path.exists() else {}
    if numbers.get("model") != sha256(weights):
        return {"missing": _how(experiment)}, {}
    n_layer, n_head = np.shape(numbers["heads"]["trained"]["entropy"])
    names = {(layer, head): _name(numbers, layer, head) for layer, head in np.ndindex(n_layer, n_head)}
    page = {
        "missing": "",
        "intro": f"Each head on «{numbers['sentence']}», and over {numbers['windows']['n']} windows of val. A row is "
        "what one place attends to; it sums to 1.",
        "choices": [
            ("layer", "Layer", [(layer, layer + 1) for layer in range(n_layer)]),
            ("head", "Head", [(head, head + 1) for head in range(n_head)]),
        ],
        "header": ["layer", *(f"head {head + 1}" for head in range(n_head))],
        "rows": [[layer + 1, *(_role(numbers, layer, head) for head in range(n_head))] for layer in range(n_layer)],
    }
    maps = {
        f"{layer} {head}": weights_of_head(numbers["parts"], np.array(numbers["weights"][layer][head]), name)
        for (layer, head), name in names.items()
    }
    return page, {"weights": maps, "worth": {"": _worth(numbers, names)}, "context": {"": _context(numbers)}}


def _how(experiment: Experiment) -> str:
    """The sentence in place of a study."""
    revision = experiment.result.revision
    before = "" if revision.is_workspace or revision.name == "HEAD" else f"`dvc exp apply {revision.name}`, then "
    return (
        f"The attention of this GPT has not been studied. {before}`bukva attention` studies it, in half a minute; then "
        "look again (`bukva ui`), or run `bukva report` again."
    )


def _role(numbers: dict[str, Any], layer: int, head: int) -> str:
    role = numbers["heads"]["trained"]["role"][layer][head]
    return f"{role['name']} {role['score']:.2f}"


def _name(numbers: dict[str, Any], layer: int, head: int) -> str:
    return f"layer {layer + 1}, head {head + 1}: {_role(numbers, layer, head)}"


def _worth(numbers: dict[str, Any], names: dict[tuple[int, int], str]) -> Spec:
    lost = np.array(numbers["worth"]["heads_uniform"])
    rows = pd.DataFrame({"label": names.values(), "value": [lost[place] for place in names]})
    return bars(rows.sort_values("value", ascending=False), "bits per character lost without the head")


def _context(numbers: dict[str, Any]) -> Spec:
    found = numbers["context"]
    rows = [(row["chars"], row["bits_per_char"], row["standard_error"]) for row in found["lengths"]]
    return context(pd.DataFrame(rows, columns=["length", "bits", "error"]), numbers["unit"], found["bigram_exact"])
