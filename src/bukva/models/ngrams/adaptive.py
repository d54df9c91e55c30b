"""Adapt online: while a text is scored, count its n-grams and improve the weights of the predictors.

A compressor learns from the text that it compresses, and `Reader` does the same. For each id, `Reader` first predicts a
distribution, then scores the id, and only then counts the id. The prediction is a product of experts, as in
bukva.models.ngram_memory: its logarithm is a weighted sum of the logarithms of several predictions. Each of these
predictions comes from an expert e, and the weight of the expert is its exponent b_e + c_e:

    log p(x) = sum_e (b_e + c_e) log p_e(x) - log Z

Here Z makes the probabilities sum to 1. There are three kinds of experts: n-grams counted in the training split and in
all text read since, n-grams counted only in the current work, and the network, which is the GPT without n-grams. The
exponents b were learned by the GPT, or are a first guess.

The corrections c are learned here. Each correction is the sum of three numbers, which are selected by the context. The
first number is selected by the longest context that was counted before: by its length, and by how many different ids
followed it. The second number is selected in the same way, but only the current work is considered. The third number is
selected by the last id. After each id, a step of Adagrad (Duchi et al. 2011) updates the selected numbers to lower the
loss of the id.

The counts are exact: they equal the counts of the training split plus the counts of the text read. The discounts are
not updated. The n-grams of a single work use the fallback discounts of KenLM. New n-grams are stored in linked lists
next to the trie of the training split, and `Reader.forget` removes them.

Sources: Cleary & Witten 1984 (PPM, which counts while it compresses); Mahoney 2005, "Adaptive weighing of context
models for lossless data compression", and Mattern 2012, "Mixing strategies in data compression" (exponents that are
learned online and selected by context); Grave et al. 2017 (the recent text as a separate model).

In shapes, V is the vocab_size, R the number of orders, K the greatest order, Q the number of orders for the n-grams of
the current work, and E = R + Q + 1 the number of experts.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from bukva.core.compiled import compiled
from bukva.models.ngrams.kneser_ney import KneserNey
from bukva.models.ngrams.smoothing import FALLBACK, Floats
from bukva.models.ngrams.trie import Ints, Nodes, Trie
from bukva.text.ids import Ids

OWN_ORDERS = (3, 6)  # lengths of the n-grams that are counted in the current work alone
OWN_EXPONENT = 0.07  # initial exponent (weight) of the n-grams of each of these lengths
RATE, DAMPING = 0.02, 100.0  # for a gradient g, a step of Adagrad is RATE g / sqrt(DAMPING + the sum of g^2)
CLASSES = 3  # classes of contexts by the number of different ids that followed them: 1, 2 or 3, more
UNKNOWN = -1  # node of an n-gram that is not in the trie, or that would begin before its text
MIN_PROBABILITY = 1e-30  # lower bound of probabilities, because 0 has no logarithm
NOTHING, ONE = np.zeros(1, np.int32), np.ones(1, np.int32)
EMPTY = Trie(
    firsts=np.ones(2, np.int32), symbols=NOTHING, counts=NOTHING, continuations=ONE, levels=np.array([0, 1, 1])
)
WORK_DISCOUNTS = np.tile(FALLBACK, (OWN_ORDERS[-1] + 1, 1))  # a work is too short to estimate its own discounts


class GrowableTrie(NamedTuple):
    """A trie of n-grams of up to K ids to which nodes can be added. Each node is an n-gram.

    The trie has G original nodes and room for M added nodes. Added nodes have the numbers G, G + 1 and so on.

    firsts, symbols: arrays of the original nodes (see bukva.models.ngrams.trie.Trie).
    counts, continuations: (G + M,), updated counts and continuation counts of original and added nodes.
    new_firsts: (G + M,), first added child of each node; 0 if there is none.
    new_symbols: (M,), last id of each added n-gram.
    siblings: (M,), for each added node, the next added child of the same parent; 0 if there is none.
    touched: (2 M,), original nodes whose counts or children have changed.
    sizes: (2,), number of added nodes, and number of entries in `touched`.
    by_count, by_continuation: (K + 1, 4), discounts of counts and of continuation counts (see `Smoothed`).
    ends: (K + 1,), for each n from 0 to K, the node of the last n ids of the text so far.
    """

    firsts: Nodes
    symbols: Nodes
    counts: Nodes
    continuations: Nodes
    new_firsts: Nodes
    new_symbols: Nodes
    siblings: Nodes
    touched: Nodes
    sizes: Ints
    by_count: Floats
    by_continuation: Floats
    ends: Ints

    @classmethod
    def of(cls, trie: Trie, max_length: int, by_count: Floats, by_continuation: Floats) -> "GrowableTrie":
        """Return a growable trie that shares the arrays of `trie`. Call `with_capacity` before adding n-grams."""
        none, G = np.empty(0, np.int32), len(trie.symbols)
        arrays = (trie.firsts, trie.symbols, trie.counts, trie.continuations, np.zeros(G, np.int32), none, none, none)
        return cls(*arrays, np.zeros(2, np.int64), by_count, by_continuation, np.zeros(max_length + 1, np.int64))

    def with_capacity(self, n_ids: int) -> "GrowableTrie":
        """Return a trie that has room for the n-grams of `n_ids` more ids: this trie, or a larger copy.

        A copy has at least twice the capacity, so copies are rare.
        """
        M, n_grams = len(self.siblings), n_ids * (len(self.ends) - 1)
        missing = int(max(self.sizes[0] + n_grams, self.sizes[1] // 2 + 1 + n_grams)) - M
        if n_grams == 0 or missing <= 0:
            return self
        more = max(missing, M)

        def longer(array: Nodes, n: int = more) -> Nodes:
            return np.concatenate([array, np.zeros(n, np.int32)])

        return self._replace(
            counts=longer(self.counts),
            continuations=longer(self.continuations),
            new_firsts=longer(self.new_firsts),
            new_symbols=longer(self.new_symbols),
            siblings=longer(self.siblings),
            touched=longer(self.touched, 2 * more),
        )

    def clear(self, trie: Trie) -> None:
        """Remove all added nodes, and restore the counts of the original nodes from `trie`."""
        touched = self.touched[: self.sizes[1]]
        self.counts[touched] = trie.counts[touched]
        self.continuations[touched] = trie.continuations[touched]
        self.new_firsts[touched] = 0
        self.sizes[:] = 0

    def begin(self) -> None:
        """Start a new text, so that the next id has no context."""
        self.ends[:] = UNKNOWN
        self.ends[0] = 0


class Gate(NamedTuple):
    """Learned corrections of the exponents, and the sums of their squared gradients for Adagrad.

    An exponent is the weight of one of E experts in the product of experts. The context of an id selects three of the S
    rows of `corrections`. The sum of these rows corrects the E exponents (see the top of this module).
    """

    corrections: Floats  # (S, E)
    squares: Floats  # (S, E)


class Predictor(NamedTuple):
    """Everything that a `Reader` predicts from, except the output of the network.

    of_all: n-grams of the training split and of all text read.
    orders: (R,), lengths of the n-grams in `of_all` to predict from.
    of_work: n-grams of the current work.
    own_orders: (Q,), lengths of the n-grams in `of_work` to predict from.
    gate: corrections of the exponents.
    """

    of_all: GrowableTrie
    orders: Ints  # (R,)
    of_work: GrowableTrie
    own_orders: Ints  # (Q,)
    gate: Gate


class Reader:
    """Scorer that reads works one after another, and learns from each id after it has scored this id.

    To predict an id, a `Reader` combines the prediction of a network with those of n-gram counts.

    Args:
        counts: n-gram counts of the training split.
        orders: lengths of the n-grams to predict from, ascending.
        n_ids: number of ids to allocate memory for. More ids can be read, but the counts then have to be copied.
    """

    def __init__(self, counts: KneserNey, orders: Sequence[int], n_ids: int = 1) -> None:
        self.vocab_size, self._trie = counts.vocab_size, counts.trie
        self._orders, self._own_orders = np.array(orders), np.array(OWN_ORDERS)
        discounts = (smoothed.discounts for smoothed in counts.smoothing)
        self._all = GrowableTrie.of(counts.trie, orders[-1], *discounts).with_capacity(n_ids)
        self.forget()

    def forget(self) -> None:
        """Forget all text read, and start a new work. The corrections of the exponents become 0."""
        self._all.clear(self._trie)
        n_rows = CLASSES * (self._orders[-1] + OWN_ORDERS[-1]) + self.vocab_size
        self._gate = Gate(*np.zeros((2, n_rows, len(self._orders) + len(OWN_ORDERS) + 1)))
        self.start(np.empty(0, np.int64))

    def start(self, before: Ids) -> None:
        """Start a new work.

        The n-gram counts of the new work contain only the earlier ids `before`, (n,). These are, for example, the part
        of the work in the training split. They are not added to the counts of all text.
        """
        self._own = GrowableTrie.of(EMPTY, OWN_ORDERS[-1], WORK_DISCOUNTS, WORK_DISCOUNTS)
        self.seek(before)
        self._own = self._own.with_capacity(len(before))
        self._own.begin()
        _append(self._own, before.astype(np.int64), True)

    def seek(self, before: Ids) -> None:
        """Move to another position in the current work. The (n,) ids `before` are its context, but are not counted."""
        context = before[-self._orders[-1] :].astype(np.int64)
        self._all, self._own = self._all.with_capacity(len(context)), self._own.with_capacity(len(context))
        for grown in (self._all, self._own):
            grown.begin()
            _append(grown, context, False)
        self._last = np.append(0, context)[-1:]

    def count(self, ids: Ids) -> None:
        """Count the next (n,) ids of the work without scoring them."""
        self._all, self._own = self._all.with_capacity(len(ids)), self._own.with_capacity(len(ids))
        for grown in (self._all, self._own):
            _append(grown, ids.astype(np.int64), True)
        self._last = np.append(self._last, ids)[-1:]

    def read(self, ids: Ids, network: npt.NDArray[np.float32], exponents: npt.NDArray[np.float32]) -> Floats:
        """Return the losses in nats of the next (n,) `ids` of the work. Learn from each id after it is scored.

        Args:
            ids: (n,), the ids to score.
            network: (n, V). Row i contains the network's log-probabilities of all V ids at the position of `ids[i]`.
            exponents: (n, R + 1). Row i contains the weights of the n-grams of each of R orders, and then of the
                network, at the position of `ids[i]`.
        """
        self._all, self._own = self._all.with_capacity(len(ids)), self._own.with_capacity(len(ids))
        nats = np.empty(len(ids))
        _read(ids.astype(np.int64), self._last, self._predictor(), network, self._with_own(exponents), nats)
        return nats

    def log_probs(self, network: npt.NDArray[np.float32], exponents: npt.NDArray[np.float32]) -> Floats:
        """Return the log-probabilities that each of the V ids comes next in the work, (V,).

        Args:
            network: (V,), the network's log-probabilities of the next id.
            exponents: (R + 1,), the weight of the n-grams of each order, followed by the weight of the network.
        """
        predicted, experts = np.empty(self.vocab_size), np.empty((len(self._gate.squares[0]), self.vocab_size))
        all_exponents = self._with_own(exponents[None])[0]
        _predict(self._last[0], self._predictor(), network, all_exponents, experts, np.empty(3, np.int64), predicted)
        return predicted

    def _predictor(self) -> Predictor:
        return Predictor(self._all, self._orders, self._own, self._own_orders, self._gate)

    def _with_own(self, exponents: npt.NDArray[np.float32]) -> Floats:
        """Insert the initial exponents for the n-grams of the current work before the exponent of the network.

        The shape (n, R + 1) becomes (n, E), for n ids, R orders and E experts.
        """
        own = np.full((len(exponents), len(OWN_ORDERS)), OWN_EXPONENT)
        return np.concatenate([exponents[:, :-1], own, exponents[:, -1:]], axis=1, dtype=np.float64)


@compiled
def _read(
    ids: Ints, last: Ints, predictor: Predictor, network: npt.NDArray[np.float32], exponents: Floats, nats: Floats
) -> None:
    """Fill `nats` with the losses of `ids`, and update `predictor` after each id. Both arrays are (n,).

    `last`, (1,), contains the id before `ids`. The function replaces it by the last of `ids`. Each row of `network`
    contains log-probabilities, and each row of `exponents` the weights of all experts before they are corrected.
    """
    E, V = exponents.shape[1], network.shape[1]
    experts, predicted, rows = np.empty((E, V)), np.empty(V), np.empty(3, np.int64)
    for i in range(len(ids)):
        x = ids[i]
        _predict(last[0], predictor, network[i], exponents[i], experts, rows, predicted)
        nats[i] = -predicted[x]
        for v in range(V):
            predicted[v] = np.exp(predicted[v])
        for e in range(E):
            gradient = -experts[e, x]  # derivative of the nats: expected minus observed log-probability
            for v in range(V):
                gradient += predicted[v] * experts[e, v]
            for row in rows:
                predictor.gate.squares[row, e] += gradient * gradient
                predictor.gate.corrections[row, e] -= (
                    RATE * gradient / np.sqrt(DAMPING + predictor.gate.squares[row, e])
                )
        _append(predictor.of_all, ids[i : i + 1], True)
        _append(predictor.of_work, ids[i : i + 1], True)
        last[0] = x


@compiled
def _predict(
    last: int,
    predictor: Predictor,
    network: npt.NDArray[np.float32],
    exponents: Floats,
    experts: Floats,
    rows: Ints,
    predicted: Floats,
) -> None:
    """Predict the next id, and fill the arrays `experts`, `rows` and `predicted`.

    experts: (E, V), log-probabilities of V ids by each of E experts.
    rows: (3,), rows of `Gate` that the context selects.
    predicted: (V,), log-probabilities by the product of experts.
    """
    (E, V), R = experts.shape, len(predictor.orders)
    rows[0] = _experts(predictor.of_all, predictor.orders, experts[:R])
    rows[1] = CLASSES * predictor.orders[-1] + _experts(predictor.of_work, predictor.own_orders, experts[R : E - 1])
    rows[2] = CLASSES * (predictor.orders[-1] + predictor.own_orders[-1]) + last
    for v in range(V):
        experts[E - 1, v] = network[v]
        predicted[v] = 0.0
    for e in range(E):
        exponent = exponents[e]
        for row in rows:
            exponent += predictor.gate.corrections[row, e]
        for v in range(V):
            predicted[v] += exponent * experts[e, v]
    greatest, total = predicted.max(), 0.0
    for v in range(V):
        total += np.exp(predicted[v] - greatest)
    for v in range(V):
        predicted[v] -= greatest + np.log(total)


@compiled
def _experts(grown: GrowableTrie, orders: Ints, experts: Floats) -> int:
    """Fill `experts`, (R, V), with the log-probabilities of V ids by the n-grams of each of R orders.

    Return the row of `Gate` that the longest counted context selects.
    """
    V, K, r, row = experts.shape[1], orders[-1], 0, 0
    p = np.full(V, 1 / V)
    for order in range(1, K + 1):
        context, n_followers = grown.ends[order - 1], 0
        if order == orders[r]:
            expert = experts[r]
            for v in range(V):
                expert[v] = p[v]
            n_followers = _refine(expert, grown, grown.counts, grown.by_count[order], context)
            for v in range(V):
                expert[v] = np.log(max(expert[v], MIN_PROBABILITY))
            r += 1
        if order < K:
            n_followers = _refine(p, grown, grown.continuations, grown.by_continuation[order], context)
        if n_followers:
            row = CLASSES * (order - 1) + (n_followers > 1) + (n_followers > 3)
    return row


@compiled
def _refine(p: Floats, grown: GrowableTrie, counts: Nodes, discounts: Floats, context: int) -> int:
    """Turn probabilities given the next shorter context into probabilities given `context`, in place.

    `p`, (V,), contains the probabilities of all V ids. Return the number of different ids that have followed the
    context.
    """
    if context == UNKNOWN:
        return 0
    G, low, high = len(grown.symbols), 0, 0
    if context < G:
        low, high = grown.firsts[context], grown.firsts[context + 1]
    total, freed, n_followers = 0, 0.0, 0
    added = grown.new_firsts[context]
    node = low if low < high else added
    while node:
        total += counts[node]
        freed += discounts[min(counts[node], 3)]
        n_followers += counts[node] > 0
        node = node + 1 if node + 1 < high else added if node < high else grown.siblings[node - G]
    if total == 0:
        return 0
    for v in range(len(p)):
        p[v] *= freed / total
    node = low if low < high else added
    while node:
        symbol = grown.symbols[node] if node < G else grown.new_symbols[node - G]
        p[symbol] += (counts[node] - discounts[min(counts[node], 3)]) / total
        node = node + 1 if node + 1 < high else added if node < high else grown.siblings[node - G]
    return n_followers


@compiled
def _append(grown: GrowableTrie, ids: Ints, is_counted: bool) -> None:
    """Append (n,) `ids` to the text. Add to the trie the n-grams of every length that end with each of these ids.

    The counts of these n-grams increase only if `is_counted` is True.
    """
    G, ends, sizes = len(grown.symbols), grown.ends, grown.sizes
    for x in ids:
        was_new = False  # whether the n-gram that is one id longer was counted for the first time
        for n in range(len(ends) - 1, 0, -1):  # longest first, because step n + 1 needs the old ends[n]
            context, before = ends[n - 1], UNKNOWN if n + 1 == len(ends) else ends[n]
            if context == UNKNOWN:
                ends[n] = UNKNOWN
                continue
            node = _child(grown, context, x)
            if node == UNKNOWN:
                node = G + sizes[0]
                sizes[0] += 1
                grown.counts[node] = grown.continuations[node] = grown.new_firsts[node] = 0
                grown.new_symbols[node - G], grown.siblings[node - G] = x, grown.new_firsts[context]
                grown.new_firsts[context] = node
                _touch(grown, context)
            if is_counted:
                is_new = grown.counts[node] == 0
                # as in the training split, the start of a text counts as an id before its first n-gram
                if was_new or (is_new and before == UNKNOWN):
                    grown.continuations[node] += 1
                grown.counts[node] += 1
                _touch(grown, node)
                was_new = is_new
            ends[n] = node


@compiled
def _child(grown: GrowableTrie, context: int, symbol: int) -> int:
    """Return the node of the n-gram `context` followed by the id `symbol`, or UNKNOWN if there is no such node."""
    G = len(grown.symbols)
    if context < G:
        low, stop = grown.firsts[context], grown.firsts[context + 1]
        high = stop
        while low < high:
            middle = (low + high) // 2
            if grown.symbols[middle] < symbol:
                low = middle + 1
            else:
                high = middle
        if low < stop and grown.symbols[low] == symbol:
            return low
    node = grown.new_firsts[context]
    while node and grown.new_symbols[node - G] != symbol:
        node = grown.siblings[node - G]
    return node if node else UNKNOWN


@compiled
def _touch(grown: GrowableTrie, node: int) -> None:
    """Add `node` to `touched`, the list of nodes that have changed, if it is an original node."""
    if node < len(grown.symbols):
        grown.touched[grown.sizes[1]] = node
        grown.sizes[1] += 1
