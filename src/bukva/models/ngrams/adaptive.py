"""Online adaptation: n-gram counts and expert exponents that are updated while a text is scored.

A compressor learns from the text that it compresses, and `Reader` does the same. It predicts each id by a full
distribution, scores it, and only then counts it. The prediction is a product of experts, as in
bukva.models.ngram_memory, where each expert has an exponent, b + c:

    log p(x) = sum_e (b_e + c_e) log p_e(x) - log Z

The experts are the n-grams of the training split and of all text read since, the n-grams of the current work alone, and
the network. The exponents b are learned by the GPT, or are a first guess. The corrections c are learned here. Each
correction is a sum of three numbers. The first is selected by the longest context that was counted before: by its
length, and by the number of different ids that followed it. The second is selected in the same way within the current
work, and the third by the last id. After each id, a step of Adagrad (Duchi et al. 2011) updates these numbers to lower
the nats of the id.

Counts are exact: they equal the counts of the training split and of the text read, taken together. The discounts are
not updated. The n-grams of a single work have the fallback discounts of KenLM. New n-grams are stored in linked lists
next to the trie of the training split, and `Reader.forget` removes them.

Sources: Cleary & Witten 1984 (PPM counts while it compresses); Mahoney 2005, "Adaptive weighing of context models for
lossless data compression", and Mattern 2012, "Mixing strategies in data compression" (exponents learned online,
selected by context); Grave et al. 2017 (the recent text as a separate model).

Letters: V = vocab_size, R orders, K the greatest, Q orders of the work's own n-grams, E = R + Q + 1 experts. A gram is
an n-gram of any length.
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

OWN_ORDERS = (3, 6)  # orders of the n-grams of the current work alone
OWN_EXPONENT = 0.07  # initial exponent of each of these orders
RATE, DAMPING = 0.02, 100.0  # a step of Adagrad is RATE g / sqrt(DAMPING + the sum of g^2)
CLASSES = 3  # of contexts, by the number of different ids that have followed: at most one, two or three, more
UNKNOWN = -1  # node of a gram that would begin before its text
MIN_PROBABILITY = 1e-30  # lower bound of probabilities, because 0 has no logarithm
NOTHING, ONE = np.zeros(1, np.int32), np.ones(1, np.int32)
EMPTY = Trie(
    firsts=np.ones(2, np.int32), symbols=NOTHING, counts=NOTHING, continuations=ONE, levels=np.array([0, 1, 1])
)
WORK_DISCOUNTS = np.tile(FALLBACK, (OWN_ORDERS[-1] + 1, 1))  # a work is too short to estimate its own


class GrowableTrie(NamedTuple):
    """A trie of G nodes (bukva.models.ngrams.trie) that M nodes can be added to, for grams of up to K ids.

    firsts, symbols: arrays of the trie.
    counts, continuations: (G + M,) counts, which begin as copies of the trie's arrays.
    new_firsts: (G + M,) first added child of each node; 0 for none.
    new_symbols: (M,) last id of each added gram.
    siblings: (M,) next added child of the same node; 0 for none.
    touched: (2 M,) nodes of the trie whose counts or children have changed.
    sizes: (2,) number of added nodes, and of touched nodes.
    by_count, by_continuation: (K + 1, 4) discounts.
    ends: (K + 1,) node of the gram of each length that ends the text so far.
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
        """Return a growable trie that shares the arrays of `trie`. It needs `with_capacity` before nodes are added."""
        none, G = np.empty(0, np.int32), len(trie.symbols)
        arrays = (trie.firsts, trie.symbols, trie.counts, trie.continuations, np.zeros(G, np.int32), none, none, none)
        return cls(*arrays, np.zeros(2, np.int64), by_count, by_continuation, np.zeros(max_length + 1, np.int64))

    def with_capacity(self, n_ids: int) -> "GrowableTrie":
        """Return this trie, or a larger copy if the grams of n_ids more ids may not fit.

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
        """Remove all added nodes and counts."""
        touched = self.touched[: self.sizes[1]]
        self.counts[touched] = trie.counts[touched]
        self.continuations[touched] = trie.continuations[touched]
        self.new_firsts[touched] = 0
        self.sizes[:] = 0

    def begin(self) -> None:
        """Start a text: the next id has no context."""
        self.ends[:] = UNKNOWN
        self.ends[0] = 0


class Gate(NamedTuple):
    """Learned corrections of the exponents, in S rows, and the sums of their squared gradients for Adagrad."""

    corrections: Floats  # (S, E)
    squares: Floats  # (S, E)


class Predictor(NamedTuple):
    """The state that predictions depend on, except the network's output."""

    of_all: GrowableTrie
    orders: Ints  # (R,)
    of_work: GrowableTrie
    own_orders: Ints  # (Q,)
    gate: Gate


class Reader:
    """Score works in reading order, and learn from each id after its score.

    Args:
        counts: n-gram counts of the training split.
        orders: orders of the n-grams that are experts, ascending.
        n_ids: number of ids to allocate memory for. Reading more ids before `forget` copies the counts.
    """

    def __init__(self, counts: KneserNey, orders: Sequence[int], n_ids: int = 1) -> None:
        self.vocab_size, self._trie = counts.vocab_size, counts.trie
        self._orders, self._own_orders = np.array(orders), np.array(OWN_ORDERS)
        discounts = (smoothed.discounts for smoothed in counts.smoothing)
        self._all = GrowableTrie.of(counts.trie, orders[-1], *discounts).with_capacity(n_ids)
        self.forget()

    def forget(self) -> None:
        """Remove all counts of read text, and reset the corrections to 0."""
        self._all.clear(self._trie)
        n_rows = CLASSES * (self._orders[-1] + OWN_ORDERS[-1]) + self.vocab_size
        self._gate = Gate(*np.zeros((2, n_rows, len(self._orders) + len(OWN_ORDERS) + 1)))
        self.start(np.empty(0, np.int64))

    def start(self, before: Ids) -> None:
        """Begin a work whose (n,) earlier ids are `before`, for example its part of the training split.

        These ids are counted in the work's own n-grams. They are not added to the counts of all text.
        """
        self._own = GrowableTrie.of(EMPTY, OWN_ORDERS[-1], WORK_DISCOUNTS, WORK_DISCOUNTS)
        self.seek(before)
        self._own = self._own.with_capacity(len(before))
        self._own.begin()
        _append(self._own, before.astype(np.int64), True)

    def seek(self, before: Ids) -> None:
        """Continue the same work after (n,) ids, which are the context of the next id and are not counted."""
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
        """Score the next (n,) ids of the work, and learn from each after its score.

        Args:
            ids: (n,).
            network: (n, V), log-probabilities of each id by the network.
            exponents: (n, R + 1), exponents of the orders and, last, of the network.

        Returns:
            (n,) nats.
        """
        self._all, self._own = self._all.with_capacity(len(ids)), self._own.with_capacity(len(ids))
        nats = np.empty(len(ids))
        _read(ids.astype(np.int64), self._last, self._predictor(), network, self._with_own(exponents), nats)
        return nats

    def log_probs(self, network: npt.NDArray[np.float32], exponents: npt.NDArray[np.float32]) -> Floats:
        """Return the (V,) log-probabilities of the next id.

        Args:
            network: (V,), log-probabilities of the next id by the network.
            exponents: (R + 1,), exponents of the orders and, last, of the network.
        """
        predicted, experts = np.empty(self.vocab_size), np.empty((len(self._gate.squares[0]), self.vocab_size))
        all_exponents = self._with_own(exponents[None])[0]
        _predict(self._last[0], self._predictor(), network, all_exponents, experts, np.empty(3, np.int64), predicted)
        return predicted

    def _predictor(self) -> Predictor:
        return Predictor(self._all, self._orders, self._own, self._own_orders, self._gate)

    def _with_own(self, exponents: npt.NDArray[np.float32]) -> Floats:
        """Insert the initial exponents of the work's own n-grams: (n, R + 1) -> (n, E)."""
        own = np.full((len(exponents), len(OWN_ORDERS)), OWN_EXPONENT)
        return np.concatenate([exponents[:, :-1], own, exponents[:, -1:]], axis=1, dtype=np.float64)


@compiled
def _read(
    ids: Ints, last: Ints, predictor: Predictor, network: npt.NDArray[np.float32], exponents: Floats, nats: Floats
) -> None:
    """Fill the (n,) nats of (n,) ids. `last`, (1,), holds the id before them and is set to the last of them."""
    E, V = exponents.shape[1], network.shape[1]
    experts, predicted, rows = np.empty((E, V)), np.empty(V), np.empty(3, np.int64)
    for i in range(len(ids)):
        x = ids[i]
        _predict(last[0], predictor, network[i], exponents[i], experts, rows, predicted)
        nats[i] = -predicted[x]
        for v in range(V):
            predicted[v] = np.exp(predicted[v])
        for e in range(E):
            gradient = -experts[e, x]  # d nats / d exponent: the expected log-probability less the observed one
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
    """Fill (E, V) log-probabilities of experts, (3,) rows of the gate, and (V,) log-probabilities of the product."""
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
    """Fill (R, V) log-probabilities of the next id under each order; return the row of the longest counted context."""
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
    """Update `p`, the (V,) probabilities given the next shorter context, to the probabilities given `context`.

    Returns the number of different ids that have followed the context.
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
    """Append (n,) ids to the text. If `is_counted`, count the grams of every length that end with each id."""
    G, ends, sizes = len(grown.symbols), grown.ends, grown.sizes
    for x in ids:
        was_new = False  # whether the gram that is one id longer was counted for the first time
        for n in range(len(ends) - 1, 0, -1):  # from the longest, because step n + 1 needs the old ends[n]
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
                # as in the training split, the start of a text counts as one id before its first gram
                if was_new or (is_new and before == UNKNOWN):
                    grown.continuations[node] += 1
                grown.counts[node] += 1
                _touch(grown, node)
                was_new = is_new
            ends[n] = node


@compiled
def _child(grown: GrowableTrie, context: int, symbol: int) -> int:
    """Return the node of a gram from its context and its last id, or UNKNOWN."""
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
    """Record that the counts or children of a node of the original trie have changed."""
    if node < len(grown.symbols):
        grown.touched[grown.sizes[1]] = node
        grown.sizes[1] += 1
