"""Online adaptation, compared with an implementation with dictionaries; and properties of an honest adaptive score."""

from collections import Counter, defaultdict

import numpy as np
import pytest

from bukva.models.ngrams.adaptive import CLASSES, DAMPING, OWN_EXPONENT, OWN_ORDERS, RATE, Reader
from bukva.models.ngrams.kneser_ney import KneserNey

V, ORDERS = 7, [2, 5]
K = ORDERS[-1]
RNG = np.random.default_rng(11)
TRAIN = RNG.choice(V, 211, p=np.array([7, 5, 3, 2, 2, 1, 1]) / 21)
TEXT = np.concatenate([TRAIN[29:48], RNG.integers(0, V, 17), TRAIN[29:48], RNG.integers(0, V, 13)])
BEFORE = RNG.integers(0, V, 23)
COUNTED = [0.0, 1.0, 0.0]  # exponents: the longest order alone
FALLBACK = [0, 0.5, 1, 1.5]


def reader():
    return Reader(KneserNey.count(TRAIN, V, K), ORDERS)


def network(n, seed=3):
    logits = np.random.default_rng(seed).normal(size=(n, V))
    return (logits - np.log(np.exp(logits).sum(1, keepdims=True))).astype(np.float32)


def exponents(n, of=(0.3, 0.4, 0.6)):
    return np.tile(np.array(of, np.float32), (n, 1))


def read(one, ids, of=(0.3, 0.4, 0.6)):
    ids = np.asarray(ids)
    return one.read(ids, network(len(ids)), exponents(len(ids), of))


class Slow:
    """Reference implementation: grams are tuples in dictionaries, and every sum is written out."""

    def __init__(self, orders, of_top, of_shorter):
        self.orders, self.of_top, self.of_shorter = orders, of_top, of_shorter
        self.counts, self.lefts = Counter(), defaultdict(set)

    def count(self, text, first=0):
        """Count the grams that end at text[first] and after it."""
        for i in range(first, len(text)):
            for n in range(1, min(self.orders[-1], i + 1) + 1):
                gram = tuple(text[i - n + 1 : i + 1])
                if i >= n:
                    self.lefts[gram].add(text[i - n])
                elif not self.counts[gram]:
                    self.lefts[gram].add("start")
                self.counts[gram] += 1

    def distributions(self, text):
        """Return the distribution of each order, and the row of the gate."""
        p, row, distributions = np.full(V, 1 / V), 0, []
        for order in range(1, self.orders[-1] + 1):
            context = tuple(text[len(text) - order + 1 :])
            is_known = len(context) == order - 1
            n = np.array([self.counts[(*context, x)] if is_known else 0 for x in range(V)])
            lefts = np.array([len(self.lefts[(*context, x)]) if is_known else 0 for x in range(V)])
            if order in self.orders:
                distributions.append(self.refined(p, n, self.of_top[order]))
            p = self.refined(p, lefts, self.of_shorter[order])
            if n.any():
                followed = (n > 0).sum()
                row = CLASSES * (order - 1) + (0 if followed == 1 else 1 if followed < 4 else 2)
        return distributions, row

    @staticmethod
    def refined(p, counts, discounts):
        if not counts.sum():
            return p
        taken = np.array([discounts[min(n, 3)] for n in counts])
        return (counts - taken + taken.sum() * p) / counts.sum()


def slow_nats(works):
    """Return the nats of the scored ids of all works, which are pairs (before, scored), in reading order."""
    model = KneserNey.count(TRAIN, V, K)
    known = Slow(ORDERS, *(smoothed.discounts for smoothed in model.smoothing))
    known.count(TRAIN.tolist())
    corrections, squares, nats = defaultdict(float), defaultdict(float), []
    for before, scored in works:
        of_work = Slow(OWN_ORDERS, [FALLBACK] * 9, [FALLBACK] * 9)
        of_work.count(list(before))
        learned = network(len(scored))
        for i, x in enumerate(scored):
            text = [*before, *scored[:i]]
            of_all, first = known.distributions(text)
            own, second = of_work.distributions(text)
            rows = [("all", first), ("own", second), ("last", text[-1] if text else 0)]
            logs = np.log([*of_all, *own, np.exp(learned[i].astype(np.float64))])
            exponent = [np.float32(0.3), np.float32(0.4), OWN_EXPONENT, OWN_EXPONENT, np.float32(0.6)]
            exponent = [float(b) + sum(corrections[row, e] for row in rows) for e, b in enumerate(exponent)]
            weighted = np.exp(exponent @ logs)
            predicted = weighted / weighted.sum()
            nats.append(-np.log(predicted[x]))
            for e in range(len(logs)):
                gradient = predicted @ logs[e] - logs[e, x]
                for row in rows:
                    squares[row, e] += gradient**2
                    corrections[row, e] -= RATE * gradient / (DAMPING + squares[row, e]) ** 0.5
            known.count([*text, x], len(text))
            of_work.count([*text, x], len(text))
    return np.array(nats)


def test_an_implementation_with_dictionaries_agrees_to_1e_9_over_several_works():
    works = [(BEFORE.tolist(), TEXT.tolist()), ([], TEXT[::-1].tolist()), (TEXT[:3].tolist(), BEFORE.tolist())]
    one, nats = reader(), []
    for before, scored in works:
        one.start(np.array(before, np.int64))
        nats.append(read(one, scored))
    np.testing.assert_allclose(np.concatenate(nats), slow_nats(works), rtol=0, atol=1e-9)


def test_distributions_sum_to_1_before_and_after_every_id():
    one = reader()
    one.start(BEFORE)
    for i, x in enumerate(TEXT):
        log_probs = one.log_probs(network(len(TEXT))[i], exponents(1)[0])
        assert np.exp(log_probs).sum() == pytest.approx(1, abs=1e-9)
        assert one.read(TEXT[i : i + 1], network(len(TEXT))[i : i + 1], exponents(1)) == pytest.approx(-log_probs[x])


def test_the_nats_of_a_prefix_are_those_of_the_whole_text_cut_there_and_pieces_change_nothing():
    whole = read(reader(), TEXT)
    np.testing.assert_array_equal(read(reader(), TEXT[:31]), whole[:31])
    one = reader()
    pieces = [
        one.read(TEXT[at], network(len(TEXT))[at], exponents(len(TEXT))[at]) for at in (slice(31), slice(31, None))
    ]
    np.testing.assert_array_equal(np.concatenate(pieces), whole)


@pytest.mark.parametrize("t", [0, 1, 19, 66])
def test_a_changed_id_changes_no_score_before_it_and_some_after_it(t):
    changed = TEXT.copy()
    changed[t] = (TEXT[t] + 1) % V
    before, after = read(reader(), TEXT), read(reader(), changed)
    np.testing.assert_array_equal(before[:t], after[:t])
    assert (before[t:] != after[t:]).any()


def test_nothing_is_known_of_a_text_before_it_is_read():
    """Before the first id is learned, the prediction is the product with the given exponents."""
    model = KneserNey.count(TRAIN, V, K)
    first = read(reader(), TEXT[:1], COUNTED)
    assert first == pytest.approx(model.nats(TEXT[:1], K))


def test_a_repeat_is_learned_and_a_shuffled_text_gains_nothing():
    unheard = RNG.integers(0, V, 97)
    twice = read(reader(), np.tile(unheard, 2), COUNTED)
    assert twice[97:].mean() < 0.3 * twice[:97].mean()
    shuffled = RNG.permutation(np.tile(unheard, 2))
    static = KneserNey.count(TRAIN, V, K).nats(shuffled, 1)  # shuffling keeps only the frequencies
    assert read(reader(), shuffled, COUNTED).mean() > static.mean() - 0.05


def test_what_was_forgotten_is_not_known_and_train_is():
    one, rng = reader(), np.random.default_rng(6)
    for _ in range(7):  # random texts have grams that are not in train, also at their beginnings
        one.start(rng.integers(0, V, 23))
        read(one, rng.integers(0, V, 11))
        one.forget()
        text = rng.integers(0, V, 67)
        np.testing.assert_array_equal(read(one, text), read(reader(), text))
        one.forget()


def test_a_new_work_has_no_own_n_grams_but_those_of_its_own_text():
    own = [0.0, 0.0, 0.0]  # exponents: the n-grams of the work alone
    one = reader()
    one.start(TEXT)
    known = read(one, TEXT, own)
    one.start(np.empty(0, np.int64))
    assert read(one, TEXT[:1], own) == pytest.approx(np.log(V), abs=0.2)
    assert known.mean() < read(reader(), TEXT, own).mean()


def test_going_on_after_a_text_counts_nothing_and_counting_needs_no_score():
    one, other = reader(), reader()
    for each in (one, other):
        each.start(BEFORE)
        read(each, TEXT)
    one.seek(BEFORE)
    one.seek(TEXT[-9:])
    np.testing.assert_array_equal(read(one, BEFORE), read(other, BEFORE))
    log_probs = []
    for each in (reader(), reader()):
        each.start(BEFORE)
        (each.count if log_probs else lambda ids, each=each: read(each, ids, COUNTED))(TEXT)
        log_probs.append(each.log_probs(network(1)[0], np.array(COUNTED, np.float32)))
    np.testing.assert_allclose(*log_probs, atol=0.5)  # scoring has also changed the exponents
    assert (log_probs[0] != log_probs[1]).any()
