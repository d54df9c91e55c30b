"""The section of the report page about who predicted what: counting, or learning."""

from typing import Any

import numpy as np

from bukva.interpret.predicted import Characters, lead, neither, passage, shares
from bukva.report.page.experiment import SPLIT, Experiment, work_label
from bukva.text.ids import bits

LEADS = (1.0, 3.0)  # bits from which a character has the next colour
LEGEND = [
    ("learned2", f"learned, by {LEADS[1]:.0f} bits or more"),
    ("learned1", f"by {LEADS[0]:.0f}"),
    ("counted1", f"counted, by {LEADS[0]:.0f}"),
    ("counted2", f"by {LEADS[1]:.0f} or more"),
    ("neither", "neither: both below chance"),
]


def predictors(experiment: Experiment, characters: Characters) -> dict[str, Any]:
    """The shares of characters, and a passage in which each has the colour of its better predictor."""
    labels = experiment.labels
    learned = "network" if "network" in experiment.table else "gpt"
    who = "The GPT" if learned == "gpt" else "The GPT without its n-grams"
    counted = experiment.table["best_counted"]
    names = list(dict.fromkeys([counted, learned, "gpt"]))
    nats = {name: experiment.scores.nats(name, SPLIT) for name in names}
    n_symbols = experiment.cleaning["symbols"]
    found = shares(nats[counted], nats[learned], n_symbols)
    shown = passage(characters)
    own = {name: np.asarray(nats[name][shown]) for name in names}
    classes = _classes(own[counted], own[learned], n_symbols)
    numbers = zip(*(bits(1.0) * own[name] for name in names), strict=True)
    return {
        "intro": f"{who} gave more probability to {100 * found.learned:.0f} % of the characters of {SPLIT}, and "
        f"{labels[counted]} to {100 * found.counted:.0f} %; both gave {100 * found.neither:.1f} % of them less than "
        "chance.",
        "legend": LEGEND,
        "work": work_label(experiment.scores.works[int(characters.work[shown.start])].name),
        "parts": [
            (char, name, ", ".join(f"{labels[key]} {value:.2f}" for key, value in zip(names, values, strict=True)))
            for char, name, values in zip(characters.text(shown.start, shown.stop), classes, numbers, strict=True)
        ],
    }


def _classes(counted: Any, learned: Any, n_symbols: int) -> list[str]:
    """The name of each character's colour; "" where both are alike."""
    leads = lead(counted, learned)
    levels = np.searchsorted(LEADS, np.abs(leads), side="right")
    unknown = neither(counted, learned, n_symbols)
    named = zip(leads.tolist(), levels.tolist(), unknown.tolist(), strict=True)
    return [
        "neither" if is_unknown else f"{'learned' if lead > 0 else 'counted'}{level}" if level else ""
        for lead, level, is_unknown in named
    ]
