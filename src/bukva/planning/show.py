"""A plan for people: the table, the warnings, and the commands that use it."""

import math
from collections.abc import Iterator

from rich import box
from rich.table import Table

from bukva.core.progress import duration, quantity
from bukva.planning.plan import CHARS_PER_PARAMETER, EPOCHS, Change, Plan


def progress_line(plan: Plan) -> str:
    """One measured size, while the next is measured."""
    speed = plan.speed
    shape = f"{speed.size.n_layer} layers, {speed.size.n_embd} channels, {quantity(speed.n_parameters)} parameters"
    pace = f"{quantity(speed.chars_per_second)} chars/s, {plan.chars_per_parameter:.1f} characters per parameter"
    return f"plan: {shape} | {pace}"


def table(plans: list[Plan], chosen: Plan) -> Table:
    """The measured sizes and their plans; the chosen one is marked."""
    budget = chosen.budget
    result = Table(
        title=f"Sizes of the GPT that stage train-gpt can train in {duration(budget.seconds)}",
        caption=f"the other stages take extra time; train has {quantity(budget.train_chars)} characters",
        box=box.SIMPLE_HEAD,
        collapse_padding=True,
        pad_edge=False,
    )
    names = "layers", "heads", "channels", "parameters", "chars/s", "steps", "chars", "chars per\nparameter", "epochs"
    for name in names:
        result.add_column(name, justify="right")
    for plan in plans:
        speed, mark = plan.speed, "> " if plan is chosen else ""
        result.add_row(
            f"{mark}{speed.size.n_layer}",
            str(speed.size.n_head),
            str(speed.size.n_embd),
            quantity(speed.n_parameters),
            quantity(speed.chars_per_second),
            str(plan.n_steps),
            quantity(plan.chars),
            f"{plan.chars_per_parameter:.1f}",
            f"{plan.epochs:.1f}",
            style="bold" if plan is chosen else None,
        )
    return result


def warnings(plan: Plan) -> Iterator[str]:
    """The weaknesses of a plan, each in a sentence with what to do."""
    if not plan.is_enough:
        enough = _budget_for(plan, CHARS_PER_PARAMETER * plan.speed.n_parameters)
        yield (
            f"Warning: even the smallest size sees {plan.chars_per_parameter:.1f} characters per parameter, fewer than "
            f"{CHARS_PER_PARAMETER}; use a budget of {enough} or more."
        )
    if plan.epochs > EPOCHS:
        fewer = _budget_for(plan, EPOCHS * plan.budget.train_chars)
        yield (
            f"Warning: the training reads the text {plan.epochs:.1f} times. After {EPOCHS} epochs, which take {fewer}, "
            "reading it again improves little and overfits; use a larger text, model.dropout, more "
            "train_gpt.weight_decay, train_gpt.patience or a smaller budget."
        )


def list_changes(changes: list[Change]) -> list[str]:
    """The proposal as changes of params.yaml, a line each."""
    if not changes:
        return ["params.yaml already has the proposed values."]
    return [f"{key}: {old} -> {new}" for key, old, new in changes]


def experiment(changes: list[Change]) -> str:
    """The command that trains with these changes."""
    return " ".join(["dvc exp run", *(f"-S {key}={new}" for key, _, new in changes)])


def _budget_for(plan: Plan, chars: float) -> str:
    """The budget that so many characters need, for people."""
    return duration(math.ceil(plan.seconds_for(chars / plan.speed.chars_per_update)))
