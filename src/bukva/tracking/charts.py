"""The page of MLflow on which all GPTs are compared: a shared view of its experiment page.

Of such a view MLflow keeps the filter in the address, and the charts nowhere: F5 shows its default charts. The address
/mlflow of `bukva ui` and the link in the note of the experiment open the view again.
"""

import json
import math
from statistics import median_high
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from bukva.tracking.entries import DESCRIPTION
from bukva.tracking.store import Store

if TYPE_CHECKING:
    from mlflow.entities import Run

VIEW = "bukva"
STAGE = "train-gpt"  # bigrams end far above, after as many updates as they like
VAL, BEST = "val_bits_per_char", "best_val_bits_per_char"
COLUMNS = ("gpt.val",)  # of the list of runs: the score of val that comparisons use
BELOW, ABOVE = 0.1, 0.3  # bits of the charts below the best training, and above the median
OURS = "[Open the charts"
NOTE = OURS + " of all GPTs]({page})"  # MLflow shows one line


def write_view(store: Store) -> str:
    """Write the view and the note into the MLflow experiment; returns the page's path on any server of the store."""
    experiment = store.experiment_id
    query = {"workflowType": "machine_learning", "compareRunsMode": "CHART", "viewStateShareKey": VIEW}
    page = f"#/experiments/{experiment}/runs?{urlencode(query)}"
    view = json.dumps(_view(_range(store.runs())))
    store.client.set_experiment_tag(experiment, f"mlflow.sharedViewState.{VIEW}", view)
    note = store.client.get_experiment(experiment).tags.get(DESCRIPTION, "")
    if not note or note.startswith(OURS):  # people may write one, too
        store.client.set_experiment_tag(experiment, DESCRIPTION, NOTE.format(page=page))
    return page


def _view(y_range: dict[str, float]) -> dict[str, Any]:
    """What MLflow's button "Share" stores: all GPTs in wide charts, the best first.

    Sorted by time, MLflow hides the trainings below their experiments. Each chart has a section of its own, because the
    title of a chart is always the name of its metric (MLflow ignores displayName on this page), and that of a section
    is free.
    """
    return {
        "searchFilter": f"tags.`bukva.stage` = '{STAGE}'",
        "orderByKey": f"metrics.`{BEST}`",
        "orderByAsc": True,
        "selectedColumns": [f"metrics.`{name}`" for name in COLUMNS],
        "runsHiddenMode": "FIRST_20_RUNS",
        "isAccordionReordered": True,
        "compareRunSections": [
            _section("Val bits/char by step", "by-step"),
            _section("Val bits/char by chars seen", "by-chars-seen"),
            {"uuid": "metrics", "name": "Model metrics", "display": True},
        ],
        "compareRunCharts": [
            _chart("by-step", y_range, xAxisKey="step"),
            _chart("by-chars-seen", y_range, xAxisKey="metric", selectedXAxisMetricKey="chars_seen"),
        ],
    }


def _section(name: str, section: str) -> dict[str, Any]:
    return {"uuid": section, "name": name, "display": True, "columns": 1, "cardHeight": 500}


def _chart(section: str, y_range: dict[str, float], **x_axis: str) -> dict[str, Any]:
    return {
        "uuid": "-".join(x_axis.values()),
        "type": "LINE",
        "metricSectionId": section,
        "metricKey": VAL,
        "yAxisKey": "metric",
        "scaleType": "linear",
        "range": y_range,
        "lineSmoothness": 0,
        "useGlobalLineSmoothing": False,
        "useGlobalXaxisKey": False,
        **x_axis,
    }


def _range(runs: list["Run"]) -> dict[str, float]:
    """The bits that the charts show: where the better half of the trainings ended. All of them while there is none.

    Every curve begins near 6 bits, and good trainings end within a hundredth of each other.
    """
    active = [run.data for run in runs if run.info.lifecycle_stage == "active"]
    found = [data.metrics.get(BEST, math.nan) for data in active if data.tags.get("bukva.stage") == STAGE]
    scores = list(filter(math.isfinite, found))
    return {"yMin": round(min(scores) - BELOW, 2), "yMax": round(median_high(scores) + ABOVE, 2)} if scores else {}
