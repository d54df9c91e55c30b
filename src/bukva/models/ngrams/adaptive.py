"""Reading on: counts that go on counting, and powers that are learned, while a text is scored.

A compressor learns from the text that it compresses. So does this reader: each id is predicted by a full distribution,
scored, and only then counted. The prediction is a product of experts, as in bukva.models.ngram_memory,

    log p(x) = sum_e (b_e + c_e) log p_e(x) - log Z

with the n-grams of train and of all that was read since, the n-grams of this work alone, and the network as experts.
The powers b are those that the GPT has learned, or a first guess. Their corrections c are learned here: each is the sum
of three numbers, chosen by how long a context was counted before (and how many ids have followed it), by the same in
this work, and by the last id. After each id a step of Adagrad (Duchi et al. 2011) lowers its nats.

Counts are exact: they are always those of train and of what was read, counted together. Discounts stay those of train;
of a work they are KenLM's where counts tell none. New grams are linked lists beside the trie of train, and `forget`
takes them out again.

Sources: Cleary & Witten 1984 (PPM counts as it goes); Mahoney 2005, "Adaptive weighing of context models for lossless
data compression", and Mattern 2012, "Mixing strategies in data compression" (powers learned online, chosen by context);
Grave et al. 2017 (the recent text as a model of its own).

Letters: V = vocab_size, R orders, K the greatest, Q orders of the work's own n-grams, E = R + Q + 1 experts.
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

OWN_ORDERS = (3, 6)  # of the n-grams of the work itself
OWN_POWER = 0.07  # of each of them, before anything is learned
RATE, DAMPING = 0.02, 100.0  # a step of Adagrad is RATE g / sqrt(DAMPING + the sum of g^2)
CLASSES = 3  # of contexts: at most one id has followed, two or three, more
UNKNOWN = -1  # the node of a gram that begins before its text does
LEAST = 1e-30  # smaller probabilities are taken for this one, because 0 has no logarithm
NOTHING, ONE = np.zeros(1, np.int32), np.ones(1, np.int32)
EMPTY = Trie(
    firsts=np.ones(2, np.int32), symbols=NOTHING, counts=NOTHING, continuations=ONE, levels=np.array([0, 1, 1])
)
OF_WORK = np.tile(FALLBACK, (OWN_ORDERS[-1] + 1, 1))  # discounts: a work is too short to tell its own


class GrowableTrie(NamedTuple):
    """A trie of G nodes (bukva.models.ngrams.trie) with room for M more, of grams of up to K ids.

    firsts, symbols: those of the trie; counts and continuations, (G + M,), begin as those of the trie.
    new_firsts: (G + M,) the first added child of each node; 0 for none.
    new_symbols: (M,) the last id of each added gram.
    siblings: (M,) the next added child of the same node; 0 for none.
    touched: (2 M,) nodes of the trie whose counts or children have changed.
    sizes: (2,) how many nodes were added, and how many touched.
    by_count, by_continuation: (K + 1, 4) discounts.
    ends: (K + 1,) the gram of each length that ends the text so far.
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
        """A trie, before anything is added."""
        none, G = np.empty(0, np.int32), len(trie.symbols)
        arrays = (trie.firsts, trie.symbols, trie.counts, trie.continuations, np.zeros(G, np.int32), none, none, none)
        return cls(*arrays, np.zeros(2, np.int64), by_count, by_continuation, np.zeros(max_length + 1, np.int64))

    def with_room(self, n_ids: int) -> "GrowableTrie":
        """Itself, or a copy with room for the grams of n more ids; at least twice the room, so that copies are few."""
        M, n_grams = len(self.siblings), n_ids * (len(self.ends) - 1)
        lacking = int(max(self.sizes[0] + n_grams, self.sizes[1] // 2 + 1 + n_grams)) - M
        if n_grams == 0 or lacking <= 0:
            return self
        more = max(lacking, M)

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
        """Take out all that was added."""
        touched = self.touched[: self.sizes[1]]
        self.counts[touched] = trie.counts[touched]
        self.continuations[touched] = trie.continuations[touched]
        self.new_firsts[touched] = 0
        self.sizes[:] = 0

    def begin(self) -> None:
        """No text is before the next id."""
        self.ends[:] = UNKNOWN
        self.ends[0] = 0


class Gate(NamedTuple):
    """What is learned of the powers: S rows of corrections, and for each its sum of squared gradients."""

    corrections: Floats  # (S, E)
    squares: Floats  # (S, E)


class Known(NamedTuple):
    """All that predicts, but the network."""

    of_all: GrowableTrie
    orders: Ints  # (R,)
    of_work: GrowableTrie
    own_orders: Ints  # (Q,)
    gate: Gate


class Reader:
    """Reads works in the order in which they come, and learns from each id after it was scored."""

    def __init__(self, counts: KneserNey, orders: Sequence[int], n_ids: int = 1) -> None:
        """Of the counts of train, with room for n ids until it forgets; more room costs a copy.

        `orders`, ascending, are those of the experts.
        """
        self.vocab_size, self._trie = counts.vocab_size, counts.trie
        self._orders, self._own_orders = np.array(orders), np.array(OWN_ORDERS)
        discounts = (smoothed.discounts for smoothed in counts.smoothing)
        self._all = GrowableTrie.of(counts.trie, orders[-1], *discounts).with_room(n_ids)
        self.forget()

    def forget(self) -> None:
        """Know train alone, as in the beginning."""
        self._all.clear(self._trie)
        n_rows = CLASSES * (self._orders[-1] + OWN_ORDERS[-1]) + self.vocab_size
        self._gate = Gate(*np.zeros((2, n_rows, len(self._orders) + len(OWN_ORDERS) + 1)))
        self.start(np.empty(0, np.int64))

    def start(self, before: Ids) -> None:
        """Begin a work, of which (n,) ids came earlier: they are counted as its own, not a second time as train."""
        self._own = GrowableTrie.of(EMPTY, OWN_ORDERS[-1], OF_WORK, OF_WORK)
        self.seek(before)
        self._own = self._own.with_room(len(before))
        self._own.begin()
        _append(self._own, before.astype(np.int64), True)

    def seek(self, before: Ids) -> None:
        """Go on after (n,) ids, which are not counted; the work stays the same."""
        context = before[-self._orders[-1] :].astype(np.int64)
        self._all, self._own = self._all.with_room(len(context)), self._own.with_room(len(context))
        for grown in (self._all, self._own):
            grown.begin()
            _append(grown, context, False)
        self._last = np.append(0, context)[-1:]

    def count(self, ids: Ids) -> None:
        """Count the next (n,) ids of the work without a score."""
        self._all, self._own = self._all.with_room(len(ids)), self._own.with_room(len(ids))
        for grown in (self._all, self._own):
            _append(grown, ids.astype(np.int64), True)
        self._last = np.append(self._last, ids)[-1:]

    def read(self, ids: Ids, network: npt.NDArray[np.float32], powers: npt.NDArray[np.float32]) -> Floats:
        """Score the next (n,) ids of the work, and learn from each after its score.

        Args:
            ids: of the vocabulary.
            network: (n, V), log-probabilities that the network gives before each of them.
            powers: (n, R + 1), of the orders and of the network.

        Returns:
            (n,) nats.
        """
        self._all, self._own = self._all.with_room(len(ids)), self._own.with_room(len(ids))
        nats = np.empty(len(ids))
        _read(ids.astype(np.int64), self._last, self._known(), network, self._with_own(powers), nats)
        return nats

    def log_probs(self, network: npt.NDArray[np.float32], powers: npt.NDArray[np.float32]) -> Floats:
        """(V,) of the next id, given (V,) log-probabilities of the network and (R + 1,) powers."""
        found, experts = np.empty(self.vocab_size), np.empty((len(self._gate.squares[0]), self.vocab_size))
        power = self._with_own(powers[None])[0]
        _predict(self._last[0], self._known(), network, power, experts, np.empty(3, np.int64), found)
        return found

    def _known(self) -> Known:
        return Known(self._all, self._orders, self._own, self._own_orders, self._gate)

    def _with_own(self, powers: npt.NDArray[np.float32]) -> Floats:
        """(n, R + 1) -> (n, E)."""
        own = np.full((len(powers), len(OWN_ORDERS)), OWN_POWER)
        return np.concatenate([powers[:, :-1], own, powers[:, -1:]], axis=1, dtype=np.float64)


@compiled
def _read(ids: Ints, last: Ints, known: Known, network: npt.NDArray[np.float32], powers: Floats, nats: Floats) -> None:
    """Fill (n,) nats of (n,) ids; `last`, (1,), is the id before them, and then the last of them."""
    E, V = powers.shape[1], network.shape[1]
    experts, predicted, rows = np.empty((E, V)), np.empty(V), np.empty(3, np.int64)
    for i in range(len(ids)):
        x = ids[i]
        _predict(last[0], known, network[i], powers[i], experts, rows, predicted)
        nats[i] = -predicted[x]
        for v in range(V):
            predicted[v] = np.exp(predicted[v])
        for e in range(E):
            gradient = -experts[e, x]  # of the nats by the power of an expert: what it expects less what came
            for v in range(V):
                gradient += predicted[v] * experts[e, v]
            for row in rows:
                known.gate.squares[row, e] += gradient * gradient
                known.gate.corrections[row, e] -= RATE * gradient / np.sqrt(DAMPING + known.gate.squares[row, e])
        _append(known.of_all, ids[i : i + 1], True)
        _append(known.of_work, ids[i : i + 1], True)
        last[0] = x


@compiled
def _predict(
    last: int,
    known: Known,
    network: npt.NDArray[np.float32],
    powers: Floats,
    experts: Floats,
    rows: Ints,
    predicted: Floats,
) -> None:
    """Fill (E, V) log-probabilities of the experts, (3,) rows of the gate, and (V,) log-probabilities of the whole."""
    (E, V), R = experts.shape, len(known.orders)
    rows[0] = _experts(known.of_all, known.orders, experts[:R])
    rows[1] = CLASSES * known.orders[-1] + _experts(known.of_work, known.own_orders, experts[R : E - 1])
    rows[2] = CLASSES * (known.orders[-1] + known.own_orders[-1]) + last
    for v in range(V):
        experts[E - 1, v] = network[v]
        predicted[v] = 0.0
    for e in range(E):
        power = powers[e]
        for row in rows:
            power += known.gate.corrections[row, e]
        for v in range(V):
            predicted[v] += power * experts[e, v]
    greatest, total = predicted.max(), 0.0
    for v in range(V):
        total += np.exp(predicted[v] - greatest)
    for v in range(V):
        predicted[v] -= greatest + np.log(total)


@compiled
def _experts(grown: GrowableTrie, orders: Ints, experts: Floats) -> int:
    """Fill (R, V) log-probabilities of the next id under each order; returns the row of the longest counted context."""
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
                expert[v] = np.log(max(expert[v], LEAST))
            r += 1
        if order < K:
            n_followers = _refine(p, grown, grown.continuations, grown.by_continuation[order], context)
        if n_followers:
            row = CLASSES * (order - 1) + (n_followers > 1) + (n_followers > 3)
    return row


@compiled
def _refine(p: Floats, grown: GrowableTrie, counts: Nodes, discounts: Floats, context: int) -> int:
    """Turn (V,) probabilities given a shorter context into those given this one; returns how many ids have followed."""
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
    """Go on by (n,) ids. If they are counted, so are the grams of every length that end with each of them."""
    G, ends, sizes = len(grown.symbols), grown.ends, grown.sizes
    for x in ids:
        was_new = False  # whether the gram that is one longer was counted for the first time
        for n in range(len(ends) - 1, 0, -1):  # the gram of n ids replaces that of the text before, which n + 1 needed
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
                # a gram at the start of a text has nothing before it, which counts once, as in train
                if was_new or (is_new and before == UNKNOWN):
                    grown.continuations[node] += 1
                grown.counts[node] += 1
                _touch(grown, node)
                was_new = is_new
            ends[n] = node


@compiled
def _child(grown: GrowableTrie, context: int, symbol: int) -> int:
    """The node of a gram by its context and its last id, or UNKNOWN."""
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
    """Note that a node of the trie is no longer as it was."""
    if node < len(grown.symbols):
        grown.touched[grown.sizes[1]] = node
        grown.sizes[1] += 1
