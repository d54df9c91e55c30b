"""SIGINT and SIGTERM are requests to stop; a second one ends the process."""

import os
import signal

import pytest

from bukva.durability.signals import StopSignal


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_the_first_signal_is_noted_and_the_second_ends_the_process(number, status):
    reached, stop = [], StopSignal()
    with pytest.raises(SystemExit) as exit_, stop.caught():
        assert stop.signal == 0
        os.kill(os.getpid(), number)
        assert stop.signal == number
        reached.append("the first")
        os.kill(os.getpid(), number)
        reached.append("the second")
    assert exit_.value.code == status
    assert reached == ["the first"]


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_the_process_exits_with_the_status_of_the_signal_when_it_is_ready(number, status):
    stop = StopSignal()
    stop.exit_if_requested()
    with stop.caught():
        os.kill(os.getpid(), number)
    with pytest.raises(SystemExit) as exit_:
        stop.exit_if_requested()
    assert exit_.value.code == status


def test_the_former_handlers_are_restored():
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with pytest.raises(ZeroDivisionError), StopSignal().caught():
        1 / 0  # noqa: B018
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before
