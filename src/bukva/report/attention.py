"""Figures of the attention of the trained model; their numbers are in attention.json."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from bukva.core.files import atomic_folder, write_json
from bukva.report.forecast import forecast
from bukva.report.style import GPT_COLOUR, RAW, SHOWN, WEIGHTS, WIDTH, canvas, level, plain, save

if TYPE_CHECKING:  # it needs torch, and the report page reads what is defined here
    from bukva.interpret.study import Study

AttentionWeights = npt.NDArray[np.float32]  # (n_layer, nh, T, T)

NUMBERS = "attention.json"
PLACES = 3  # decimal places of the weights in it
SCALED = "#1b6ca8"
MOST_BARS = 24
SECOND_ROLE = 0.1  # least score of a second role that is printed
CHAR = 0.092  # inches of a character along an axis


def attention_report(study: "Study", folder: Path, model: str) -> None:
    """Write the folder in one step: attention.json, and a figure for each part of the study.

    model: the digest of the weights that were studied; with it the report page knows whether they are still the last.
    """
    numbers = study.numbers
    trained = study.weights["trained"].astype(np.float64).round(PLACES).tolist()
    with atomic_folder(folder) as unfinished:
        write_json(unfinished / NUMBERS, {"model": model, **numbers, "weights": trained})
        for state, weights in study.weights.items():
            heat_maps(numbers, state, weights, unfinished / f"weights_{state}.png")
        roles(numbers, unfinished / "heads.png")
        scale(numbers, unfinished / "scale.png")
        ablation(numbers, unfinished / "worth.png")
        context(numbers, unfinished / "context.png")
        leak(numbers, unfinished / "leak.png")
        forecast(numbers, unfinished / "forecast.png")


def heat_maps(numbers: dict[str, Any], state: str, weights: AttentionWeights, path: Path) -> None:
    """Every head of every layer on the sentence: rows are queries, columns are keys, darker is more weight."""
    text = ["".join(SHOWN.get(char, char) for char in part) for part in numbers["parts"]]
    slope = 90 if max(map(len, text)) > 1 else 0
    n_layer, n_head = weights.shape[:2]
    panel = max(WIDTH / n_head, CHAR * len(text))
    figure = canvas(height=panel * n_layer + 0.9, width=panel * n_head)
    grid = figure.subplots(n_layer, n_head, squeeze=False)
    for (layer, head), axes in np.ndenumerate(grid):
        image = axes.imshow(weights[layer, head], cmap=WEIGHTS, vmin=0, vmax=1, interpolation="nearest")
        role = numbers["heads"][state]["role"][layer][head]
        axes.set_title(f"layer {layer + 1}, head {head + 1}: {role['name']} {role['score']:.2f}", fontsize=8)
        # every panel has the same text along its axes; only the outer ones are labelled
        axes.set_xticks(
            range(len(text)), text if layer in (0, n_layer - 1) else [""] * len(text), fontsize=6.5, rotation=slope
        )
        axes.set_yticks(range(len(text)), text if head in (0, n_head - 1) else [""] * len(text), fontsize=6.5)
        axes.tick_params(length=1.5, pad=1, width=0.4, top=layer == 0, labeltop=layer == 0, bottom=layer > 0)
        axes.tick_params(
            labelbottom=layer > 0, right=head > 0, labelright=head > 0, left=head == 0, labelleft=head == 0
        )
    figure.suptitle(
        f"Attention weights, {state}: rows are queries, columns are keys; each row sums to 1\n"
        "Above each panel: the best fitting role and its score",
        fontsize=10,
    )
    bar = figure.colorbar(image, ax=grid, shrink=0.4, aspect=30, location="bottom", pad=0.01)
    bar.set_label("weight", fontsize=8)
    bar.ax.tick_params(labelsize=8)
    save(figure, path)


def roles(numbers: dict[str, Any], path: Path) -> None:
    """Layer by head: entropy relative to the plain average, mean distance, and the role of each head."""
    heads = numbers["heads"]["trained"]
    entropy, distance = np.array(heads["entropy"]), np.array(heads["distance"])
    n_layer, n_head = entropy.shape
    figure = canvas(height=0.5 * n_layer + 1.3, width=max(WIDTH, 2.8 * n_head))
    left, middle, right = figure.subplots(1, 3, width_ratios=[1, 1, 3])
    score = np.array([[role["score"] for role in row] for row in heads["role"]])
    names = [[_role(heads, layer, head) for head in range(n_head)] for layer in range(n_layer)]
    panels = (
        (left, entropy, "entropy, 1 = the plain average", 1.0, [[f"{x:.2f}" for x in row] for row in entropy]),
        (middle, distance, f"mean distance, {numbers['unit']}s", None, [[f"{x:.1f}" for x in row] for row in distance]),
        (right, score, "best fitting role, and the second best in parentheses", 1.0, names),
    )
    for axes, values, title, top, labels in panels:
        top = top or float(values.max())
        axes.imshow(values, cmap=WEIGHTS, vmin=0, vmax=top, aspect="auto")
        axes.set_title(title, fontsize=9)
        axes.set_xticks(range(n_head), range(1, n_head + 1), fontsize=8)
        axes.set_yticks(range(n_layer), range(1, n_layer + 1), fontsize=8)
        axes.set_xlabel("head", fontsize=9)
        axes.set_ylabel("layer", fontsize=9)
        axes.tick_params(length=0)
        for (row, column), value in np.ndenumerate(values):
            colour = "white" if value > 0.6 * top else "0.15"
            axes.text(column, row, labels[row][column], ha="center", va="center", fontsize=6.8, color=colour)
    save(figure, path)


def _role(heads: dict[str, Any], layer: int, head: int) -> str:
    """The role of a head and its score; the second best role too, if its score is not small."""
    role = heads["role"][layer][head]
    others = {name: grid[layer][head] for name, grid in heads["roles"].items() if name != role["name"]}
    second = max(others, key=others.__getitem__)
    in_parentheses = f"\n({second} {others[second]:.2f})" if others[second] >= SECOND_ROLE else ""
    return f"{role['name']} {role['score']:.2f}{in_parentheses}"


def scale(numbers: dict[str, Any], path: Path) -> None:
    """What dividing by the square root of the head size does to scores and to their softmax."""
    figure = canvas(height=4)
    model, peak, entropy = figure.subplots(1, 3, width_ratios=[1.4, 1, 1])
    plain(model, "Variance of the scores of this model", "layer (each mark a head)", "variance")
    for state, marker, shift in (("untrained", "x", -0.15), ("trained", "o", 0.15)):
        heads = numbers["heads"][state]
        for key, name, colour in (("raw_variance", "q·k", RAW), ("variance", "scaled", SCALED)):
            values = np.array(heads[key])  # (n_layer, nh)
            layers = np.repeat(np.arange(1, len(values) + 1) + shift, values.shape[1])
            model.scatter(layers, values.ravel(), s=22, marker=marker, color=colour, label=f"{name}, {state}")
    model.set_yscale("log")
    model.set_xticks(range(1, len(values) + 1))
    model.legend(frameon=False, fontsize=8, ncols=2, loc="lower center", bbox_to_anchor=(0.5, -0.36))
    table = numbers["scale"]
    sizes = [row["head_size"] for row in table]
    for axes, key, title in (
        (peak, "peak", "Largest of 64 weights"),
        (entropy, "entropy", "Entropy of 64 weights, nats"),
    ):
        plain(axes, title, "head size (random queries and keys)", "")
        for name, label, colour in (("raw", "softmax of q·k", RAW), ("scaled", "of q·k / √hs", SCALED)):
            axes.plot(sizes, [row[name][key] for row in table], "o-", color=colour, label=label)
        axes.set_xscale("log", base=2)
        axes.set_xticks(sizes, [str(size) for size in sizes], fontsize=8)
        axes.set_ylim(bottom=0)
        axes.legend(frameon=False, fontsize=8, ncols=2, loc="lower center", bbox_to_anchor=(0.5, -0.36))
    entropy.set_ylim(top=4.6)
    level(entropy, float(np.log(64)), "plain average")
    for axes in (model, peak, entropy):
        axes.title.set_fontsize(10)
        axes.xaxis.label.set_fontsize(9)
    save(figure, path)


def ablation(numbers: dict[str, Any], path: Path) -> None:
    """Bits per character lost when a head takes the plain average instead of attending, in descending order."""
    found = numbers["worth"]
    alone = np.array(found["heads_uniform"])
    order = np.argsort(-alone, axis=None, kind="stable")[:MOST_BARS]
    roles = [role["name"] for row in numbers["heads"]["trained"]["role"] for role in row]
    labels = [f"layer {i // alone.shape[1] + 1}, head {i % alone.shape[1] + 1} ({roles[i]})" for i in order]
    values = [found["all_uniform"], *alone.ravel()[order]]
    figure = canvas(height=0.24 * len(values) + 1.1)
    axes = figure.add_subplot()
    plain(
        axes,
        f"Loss when a head averages the past instead of attending (the trained model: {found['bits_per_char']:.3f})",
        "increase in bits per character, on val",
        "",
    )
    bars = axes.barh(["all heads", *labels], values, color=["0.45", *[SCALED] * len(labels)])
    axes.bar_label(bars, [f"{value:+.3f}" for value in values], padding=3, fontsize=8)
    axes.invert_yaxis()
    axes.margins(x=0.1, y=0.01)
    axes.tick_params(axis="y", labelsize=8, length=0)
    axes.grid(visible=False, axis="y")
    save(figure, path)


def context(numbers: dict[str, Any], path: Path) -> None:
    """Bits per character by the number of characters of context, with the exact bigram as a line."""
    found = numbers["context"]
    lengths = [row["chars"] for row in found["lengths"]]
    values = [row["bits_per_char"] for row in found["lengths"]]
    errors = [row["standard_error"] for row in found["lengths"]]
    figure = canvas(height=4.2)
    axes = figure.add_subplot()
    plain(
        axes,
        "Score of the GPT by length of context",
        f"{numbers['unit']}s of context (bars: standard error of the difference to the whole block)",
        "bits per character, on val",
    )
    axes.errorbar(lengths, values, errors, fmt="o-", color=GPT_COLOUR, lw=2, capsize=3, label="GPT")
    for length, value in zip(lengths, values, strict=True):
        axes.annotate(f"{value:.2f}", (length, value), (7, 7), textcoords="offset points", fontsize=9)
    axes.set_xscale("log", base=2)
    axes.set_xticks(lengths, [str(length) for length in lengths])
    axes.margins(y=0.12)
    level(axes, found["bigram_exact"], "exact bigram")
    save(figure, path)


def leak(numbers: dict[str, Any], path: Path) -> None:
    """Losses with the mask and without it, on targets in the window and on the target after it."""
    found = numbers["leak"]
    figure = canvas(height=4.2)
    curves, bars = figure.subplots(1, 2, width_ratios=[2, 1])
    plain(
        curves,
        f"Targets inside the window ({found['n_layer']} blocks, windows of {found['block_size']} {numbers['unit']}s)",
        "step (optimizer updates)",
        "bits per character, on val",
    )
    for name, colour in (("masked", SCALED), ("unmasked", RAW)):
        values = found[name]["in_sight"]
        curves.plot(found["steps"], values, color=colour, lw=2.2, label=f"{name}: {values[-1]:.2f} at the end")
    curves.set_ylim(bottom=0)
    curves.set_xlim(left=0)
    curves.legend(frameon=False)
    plain(bars, "Target after the window", "", "bits per character, on val")
    names = ["masked", "unmasked"]
    drawn = bars.bar(names, [found[name]["out_of_sight"] for name in names], color=[SCALED, RAW], width=0.6)
    bars.bar_label(drawn, fmt="%.2f", padding=2)
    bars.grid(visible=False, axis="x")
    bars.margins(y=0.1)
    bars.title.set_fontsize(10)
    save(figure, path)
