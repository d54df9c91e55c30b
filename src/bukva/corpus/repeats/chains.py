"""Equal runs that follow each other in two texts, joined into passages, as in aligners of genomes.

(MUMmer, Delcher et al., "Alignment of whole genomes", 1999: what stands in a gap between two runs was changed.)
"""

import numpy as np

from bukva.core.compiled import compiled
from bukva.corpus.repeats.lookup import Ints


@compiled
def chain(runs: Ints, owners: Ints, max_gap: int, look_back: int) -> Ints:
    """Join runs that follow each other in both texts with at most max_gap characters between them.

    runs: (m, 3) as `equal_runs` yields them, sorted by (owner, start in the other text).
    owners: (m,) which span of the indexed text each run is in.
    Returns (c, 6): owner, start and stop in codes, start and stop in the other text, how many characters are equal. A
    run goes to the chain with the nearest diagonal (the difference of its positions), of those of the last look_back
    runs only, so that a refrain costs no more than other text.
    """
    chains = np.empty((len(runs), 6), np.int64)
    chain_of = np.empty(len(runs), np.int64)
    n_chains = 0
    for i in range(len(runs)):
        a, b, length = runs[i]
        best, nearest = -1, max_gap + 1
        for k in range(i - 1, max(i - 1 - look_back, -1), -1):
            if owners[k] != owners[i]:
                break
            _, start_a, stop_a, start_b, stop_b, _ = chains[chain_of[k]]
            is_after = start_a < a and start_b < b and stop_a < a + length and stop_b < b + length
            drift = abs((a + length - stop_a) - (b + length - stop_b))
            if is_after and a - stop_a <= max_gap and b - stop_b <= max_gap and drift < nearest:
                best, nearest = chain_of[k], drift
        if best < 0:
            best = n_chains
            n_chains += 1
            chains[best] = owners[i], a, a + length, b, b + length, length
        else:
            overlap = max(0, chains[best, 2] - a, chains[best, 4] - b)
            chains[best, 2], chains[best, 4] = a + length, b + length
            chains[best, 5] += length - overlap
        chain_of[i] = best
    return chains[:n_chains].copy()
