"""Equal runs are joined into passages.

A run is (start in codes, start in the other text, length), and a passage is (owner, start and stop in codes, start and
stop in the other text, equal characters).
"""

import numpy as np
import pytest

from bukva.corpus.repeats.chains import chain


def chains_of(*runs, owners=None):
    return chain(np.array(runs), np.array(owners or [0] * len(runs)), 10, 4).tolist()


def test_runs_with_small_gaps_in_both_texts_are_one_chain():
    assert chains_of((100, 500, 20), (125, 530, 30)) == [[0, 100, 155, 500, 560, 50]]


@pytest.mark.parametrize("second", [(131, 525, 30), (125, 531, 30), (90, 525, 9), (125, 505, 9)])
def test_a_large_gap_or_another_order_in_one_text_parts_them(second):
    assert len(chains_of((100, 500, 20), second)) == 2


def test_characters_of_two_overlapping_runs_count_once():
    assert chains_of((100, 500, 20), (117, 520, 20)) == [[0, 100, 137, 500, 540, 37]]


def test_a_run_goes_to_the_chain_whose_diagonal_is_nearest():
    assert chains_of((100, 500, 30), (120, 506, 25), (135, 530, 20)) == [
        [0, 100, 155, 500, 550, 50],
        [0, 120, 145, 506, 531, 25],
    ]


def test_runs_of_two_works_are_two_chains():
    assert len(chains_of((100, 500, 20), (125, 530, 30), owners=[0, 1])) == 2
