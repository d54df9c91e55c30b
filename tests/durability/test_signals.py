"""A training that is asked to end."""

import os
import signal

import pytest

from bukva.durability.signals import StopSignal


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_is_noted_and_a_second_one_ends_at_once(number, status):
    reached = []
    with pytest.raises(SystemExit) as exit_, StopSignal().heard() as asked:
        assert asked.signal == 0
        os.kill(os.getpid(), number)
        assert asked.signal == number
        reached.append("the first")
        os.kill(os.getpid(), number)
        reached.append("the second")
    assert exit_.value.code == status
    assert reached == ["the first"]


def test_a_block_that_comes_to_its_end_all_the_same_ends_as_interrupted():
    with pytest.raises(SystemExit) as exit_, StopSignal().heard():
        os.kill(os.getpid(), signal.SIGINT)
    assert exit_.value.code == 130


def test_signals_are_put_back():
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with StopSignal().heard():
        pass
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before
