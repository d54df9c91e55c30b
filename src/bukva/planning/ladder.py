"""The sizes that are measured, from the smallest up, and the choice among them."""

import math
from collections.abc import Callable, Iterator

import torch

from bukva.config.schema import Params
from bukva.core.errors import BukvaError
from bukva.core.progress import duration
from bukva.planning.budget import Budget
from bukva.planning.plan import Plan, Size, Speed

LADDER = [Size(2, 64), Size(3, 96), Size(4, 128), Size(4, 192), Size(6, 256), Size(6, 384), Size(8, 512), Size(12, 768)]
LEAST_STEPS = 200  # with fewer updates a smaller batch is tried
OWN_BATCH_CHANNELS = 128  # up to here batch_size stays as it is; it doubles whenever n_embd does


def climb(measure: Callable[[Size, int], Speed], params: Params, budget: Budget) -> Iterator[Plan]:
    """The plans of the sizes, up to the first that sees too little text or does not fit into memory.

    Args:
        measure: gives the speed of a size with a batch of so many windows.
        params: gives the batch of the small sizes, and micro_batches and processes, which must divide a batch.
        budget: the limit of every plan.
    """
    divisor = params.train_gpt.micro_batches * params.train_gpt.processes
    for size in LADDER:
        batch_size = params.train_gpt.batch_size * _batch_factor(size)
        try:
            plan = Plan.of(measure(size, batch_size), budget)
            while _has_too_few_steps(plan) and batch_size % (2 * divisor) == 0:
                batch_size //= 2
                plan = Plan.of(measure(size, batch_size), budget)
        except torch.OutOfMemoryError:
            return
        yield plan
        if not plan.is_enough:
            return


def propose(plans: list[Plan]) -> Plan:
    """The largest size that sees enough text; the smallest if none does.

    Raises:
        BukvaError: there is no time for an update, or too little memory; names a sufficient budget.
    """
    if not plans:
        raise BukvaError(
            "bukva plan: this machine has too little memory for the smallest size; use a smaller train_gpt.batch_size."
        )
    enough = [plan for plan in plans if plan.is_enough]
    chosen = max(enough or plans[:1], key=lambda plan: plan.speed.n_parameters)
    if not chosen.n_steps:
        needed = duration(math.ceil(chosen.seconds_for(LEAST_STEPS)))
        raise BukvaError(
            f"BUDGET {duration(chosen.budget.seconds)}: start-up and scoring leave no time for an update; "
            f"use {needed} or more."
        )
    return chosen


def _batch_factor(size: Size) -> int:
    """How many times the batch of the small sizes this one gets."""
    return 1 << max(0, (size.n_embd // OWN_BATCH_CHANNELS).bit_length() - 1)


def _has_too_few_steps(plan: Plan) -> bool:
    """Whether to try a smaller batch, for a size that may be chosen."""
    return plan.n_steps < LEAST_STEPS and (plan.is_enough or plan.speed.size == LADDER[0])
