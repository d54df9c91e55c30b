"""Measure how much counting and learning contribute to the predictions of a GPT with n-grams.

Three predictors score the same characters: the n-grams of the longest order, the network alone (GPT.without_ngrams),
and the whole GPT, which combines both. The gain of a predictor is its improvement of the log-probability over the
uniform distribution. The gain of the whole GPT is called "gain together". The Shapley value divides it between counting
(the n-grams) and learning (the network). Each of the two gets the mean of its gain alone and of the gain that it adds
to the other one:

    counting = (gain of counts + (gain together - gain of network)) / 2
    learning = (gain of network + (gain together - gain of counts)) / 2

The sum of these values is the gain together. So the share of counting in the gain together is

    share = 1/2 + (gain of counts - gain of network) / (2 gain together)

A gain that counting or learning could each provide alone is divided equally. The GPT weights the n-grams and the
network by exponents (bukva.models.ngram_memory). The share does not depend on how the exponents are scaled. The network
may also see counts as an input. Their effect belongs to counting, because the network alone is scored without them.

`study` returns the content of counting.json, which `bukva counting` writes. The letters in shapes are defined in
bukva.models.ngram_memory.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from torch import Tensor

from bukva.backends.device import Machine
from bukva.backends.group import Group
from bukva.config.schema import Evaluate, Training
from bukva.core.errors import BukvaError
from bukva.models.base import LanguageModel
from bukva.models.gpt import GPT
from bukva.models.ngram_memory import MIN_PROBABILITY, NgramFeatures
from bukva.models.ngrams.counts import scorers
from bukva.models.registry import build
from bukva.models.window_rule import Batch, batches, context_of, ids_per_batch, stride_of
from bukva.report.page.anatomy import passage
from bukva.studies.heads import AFTER, positions_in_words
from bukva.text.held_out import HeldOut, Passage, nats_by_last_id, scored_ids
from bukva.text.ids import bits
from bukva.training.callback import StopAfter
from bukva.training.run import Task, run_training, start
from bukva.training.windows import Windows

LONGEST_WORD = 10  # the tenth letter of a word and all later letters form one group
PASSAGE = 360  # characters in the chart of a passage
POINTS = 12  # number of times that val is scored during the repeated training


@torch.inference_mode()
def experts_on(gpt: GPT, texts: Sequence[Passage]) -> pd.DataFrame:
    """Score passages with each predictor of a GPT, in overlapping windows (bukva.models.window_rule).

    Returns:
        A table with one row per scored id, in the order of the passages. Its columns:
        counted, learned, together: loss in nats of the n-grams of the longest order, of the network alone, and of the
            whole GPT.
        uniform: loss in nats of the uniform distribution.
        order: the n-gram order that contributed most. This order has the greatest product of exponent and gain over the
            uniform distribution.
        context: number of ids before the scored id that form the longest context that also occurs in `train`. It is at
            most the longest order minus 1.
    """
    T, was_training = gpt.block_size, gpt.training
    gpt.eval()
    rows = [
        _experts(gpt, batch).set_axis(batch.positions)
        for batch in batches(texts, T, stride_of(T), ids_per_batch(gpt), gpt.config.n_before)
    ]
    gpt.train(was_training)
    return pd.concat(rows).sort_index().reset_index(drop=True)


def _experts(gpt: GPT, batch: Batch) -> pd.DataFrame:
    """Return the rows of `experts_on` for the n scored ids of a batch."""
    windows, before, wanted, _ = batch.to(gpt.wte.weight.device)
    ids, targets = windows[:, :-1], windows[:, 1:][wanted]  # (B, T), (n,)
    logits, exponents, lookup = record_experts(gpt, ids, before, wanted)
    target_of_order = targets[:, None, None].expand(-1, exponents.shape[1] - 1, 1)
    orders = -lookup.probabilities.clamp_min(MIN_PROBABILITY).log().gather(-1, target_of_order)[..., 0]  # (n, R) nats
    # (n,), number of context lengths, including 0, that occur in `train`
    n_seen = (lookup.features[:, : lookup.features.shape[1] // 2] > 0).sum(-1)
    uniform = math.log(gpt.config.vocab_size)
    nats = {
        "counted": orders[:, -1],
        "learned": F.cross_entropy(gpt.without_ngrams()(ids, wanted=wanted), targets, reduction="none"),
        "together": F.cross_entropy(logits, targets, reduction="none"),
    }
    most = (exponents[:, :-1] * (uniform - orders)).argmax(-1).cpu().numpy()  # (n,)
    return pd.DataFrame(
        {
            **{name: of_ids.double().cpu().numpy() for name, of_ids in nats.items()},
            "uniform": uniform,
            "order": np.sort(gpt.config.ngram_orders)[most],
            "context": n_seen.cpu().numpy() - 1,
        }
    )


def record_experts(gpt: GPT, ids: Tensor, before: Tensor, wanted: Tensor) -> tuple[Tensor, Tensor, NgramFeatures]:
    """Run a GPT on B windows of T ids, and record its product of experts at n positions.

    Args:
        gpt: GPT with n-grams.
        ids: (B, T) ids of the windows.
        before: (B, n_before), the ids before each window.
        wanted: (B, T), True at the n positions.

    Returns:
        Three values for the n positions: (n, V) logits of the GPT over V ids, (n, R + 1) exponents of the R n-gram
        orders and of the network, and the n-gram predictions.
    """
    recorded: list[tuple[Tensor, Tensor, NgramFeatures]] = []
    hook = gpt.experts.register_forward_hook(lambda _, inputs, __: recorded.append(inputs))
    try:
        logits = gpt(ids, before=before, wanted=wanted)
    finally:
        hook.remove()
    [(hidden, _, lookup)] = recorded
    return logits, gpt.experts.exponents(hidden, lookup), lookup


def gains(experts: Any) -> tuple[Any, Any]:
    """Divide the gain of the whole GPT over the uniform distribution between counting and learning (Shapley value).

    Return the gain of counting and the gain of learning, in nats. `experts` is a table of `experts_on`, or the means of
    its columns. For a table, both results have one value per row.
    """
    counted, learned, together = (experts["uniform"] - experts[name] for name in ("counted", "learned", "together"))
    return (counted + together - learned) / 2, (learned + together - counted) / 2


def shares(experts: pd.DataFrame) -> pd.Series:
    """Return the fraction of the GPT's gain that is credited to counting (see `gains`), for each row of `experts`.

    `experts` is a table of `experts_on`. The results are clipped to [0, 1]. They are NaN in rows in which the GPT is
    not better than the uniform distribution.
    """
    counting, learning = gains(experts)
    gain = counting + learning
    return (counting / gain).where(gain > 0).clip(0, 1)


def summary(experts: pd.DataFrame) -> dict[str, Any]:
    """Summarize rows of `experts_on` by means over the rows, in bits.

    Returns:
        A dictionary:
        n: the number of rows.
        counted, learned, together: the loss of each predictor.
        only_counting, only_learning: the loss that is added if counting, or learning, is left out.
        common: the rest of the gain over the uniform distribution. Counting or learning alone can provide this part.
        share: the fraction of the gain that is credited to counting, or None if the whole GPT is not better than the
            uniform distribution.
    """
    means = experts[["counted", "learned", "together", "uniform"]].mean()
    counted, learned, together, uniform = means
    parts = {
        "counted": counted,
        "learned": learned,
        "together": together,
        "only_counting": learned - together,
        "only_learning": counted - together,
        "common": uniform - counted - learned + together,
    }
    counting, gain = gains(means)[0], uniform - together
    share = float(counting / gain) if gain > 0 else None
    return {"n": len(experts), **{name: bits(float(nats)) for name, nats in parts.items()}, "share": share}


# ---- the study


def study(gpt: GPT, text: HeldOut, params: Evaluate, recipe: Training, machine: Machine) -> dict[str, Any]:
    """Study a trained GPT with n-grams on `val`, and repeat the first updates of its training.

    Args:
        gpt: the trained GPT.
        text: all splits, divided into works.
        params: section `evaluate` of params.yaml. It has the number of updates to repeat, and the number of windows of
            `val` to score during these updates.
        recipe: the hyperparameters with which the GPT was trained.
        machine: the device on which the updates are repeated.

    Returns:
        The content of counting.json.

    Raises:
        BukvaError: the GPT has no n-grams.
    """
    if gpt.ngrams is None:
        raise BukvaError(
            "This GPT has no n-grams to study (model.ngrams=none). Train a GPT with n-grams first: "
            "`dvc exp run -S model.ngrams=input`."
        )
    texts = works_of_val(gpt, text)
    chars = []
    for work in texts:
        parts = text.tokenizer.texts_of(work.ids)
        of_work = pd.DataFrame({"work": work.work, "char": parts, "position": positions_in_words(parts)})
        chars.append(of_work[work.n_context :])
    experts = experts_on(gpt, texts).join(pd.concat(chars, ignore_index=True))
    by_position = experts.groupby(experts["position"].clip(upper=LONGEST_WORD))
    names = {n: str(n) for n in range(1, LONGEST_WORD)} | {LONGEST_WORD: f"{LONGEST_WORD}+", AFTER: "after"}
    return {
        "unit": text.tokenizer.unit,
        "orders": gpt.ngrams.orders,
        "scores": scores(text, texts, experts),
        "val": summary(experts),
        "passage": passage_of(experts),
        "by_position": [
            {"position": name, **summary(by_position.get_group(n))}
            for n, name in names.items()
            if n in by_position.groups
        ],
        "by_context": [{"context": n, **summary(rows)} for n, rows in experts.groupby("context")],
        "training": training(gpt, text, params, recipe, machine),
    }


def works_of_val(gpt: GPT, text: HeldOut, fraction: float = 1) -> list[Passage]:
    """Return the beginning of each work of val, with the context that scoring in overlapping windows needs.

    `fraction` is the length of the beginning, as a fraction of the part of the work that lies in val.
    """
    return text.passages("val", context_of(gpt, gpt.block_size, stride_of(gpt.block_size)), fraction)


def scores(text: HeldOut, texts: list[Passage], experts: pd.DataFrame) -> dict[str, float]:
    """Return the loss of each predictor on val in bits per character, and the number of scored characters.

    The keys are `bigram` (the counted bigram), `ngrams` (the n-grams of the longest order), `network` (the network
    alone), `together` (the whole GPT) and `chars` (the number of characters).

    Args:
        text: all splits.
        texts: the works of val.
        experts: the rows of `experts_on` for `texts`.
    """
    bigram = scorers(text.splits["train"], len(text.tokenizer))["bigram_exact"]
    chars = int(text.tokenizer.chars_of(scored_ids(texts)).sum())
    nats = {
        "bigram": nats_by_last_id(bigram, texts).sum(dtype=np.float64),
        "ngrams": experts["counted"].sum(),
        "network": experts["learned"].sum(),
        "together": experts["together"].sum(),
    }
    return {**{name: bits(float(of_all)) / chars for name, of_all in nats.items()}, "chars": chars}


def passage_of(experts: pd.DataFrame) -> dict[str, Any]:
    """Select a passage of the longest work of val for the chart, and return the scores of its ids.

    `experts` are rows of `experts_on` with the additional columns `work` and `char`.

    Returns:
        A dictionary:
        work: the number of the work.
        chars: a list with one dictionary per id. It has the text of the id as `char`, the bits under each predictor,
            `order` and `context` (see `experts_on`), and `share` (see `shares`), with None instead of NaN.
    """
    shown = experts[passage(experts["work"].to_numpy(), experts["char"].str.endswith("\n").to_numpy(), PASSAGE)]
    nats = shown[["counted", "learned", "together"]]
    rows = nats.map(bits).join(shown[["char", "order", "context"]]).to_dict("records")
    chars = [
        {**row, "share": None if math.isnan(share) else share} for row, share in zip(rows, shares(shown), strict=True)
    ]
    return {"work": int(shown["work"].iloc[0]), "chars": chars}


def training(gpt: GPT, text: HeldOut, params: Evaluate, recipe: Training, machine: Machine) -> dict[str, Any]:
    """Repeat the first updates of the training with a new GPT, and score a part of val at equal intervals.

    Returns:
        A dictionary:
        points: for each time that val was scored, the number of the update (`step`) and the values of `summary`.
        trained: the `summary` of the trained GPT on the same part of val.
    """
    T, n_steps = gpt.block_size, min(params.leak_steps, recipe.n_steps)
    texts = works_of_val(gpt, text, min(1.0, params.attention_windows * T / len(text.splits["val"])))
    summaries: list[dict[str, Any]] = []

    def score(model: LanguageModel, _: Group) -> float:
        summaries.append(summary(experts_on(model, texts)))
        return float(summaries[-1]["together"])

    recipe = recipe.model_copy(update={"eval_every": max(1, n_steps // POINTS), "patience": 0})
    windows = Windows(text.splits["train"], T, recipe.batch_size, recipe.order, recipe.seed)
    task = Task(lambda: build(gpt.config), windows, score, recipe, machine)
    state = start(task)
    run_training(task, state, [StopAfter(n_steps)])
    points = [{"step": point.step, **each} for point, each in zip(state.curve, summaries, strict=True)]
    return {"points": points, "trained": summary(experts_on(gpt, texts))}
