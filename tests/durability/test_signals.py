"""SIGINT and SIGTERM are requests to stop; a second one ends the process."""

import os
import signal

import pytest

from bukva.durability.signals import StopSignal


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_the_first_signal_is_noted_and_the_second_ends_the_process(number, status):
    reached, stop = [], StopSignal()
    stop.exit_if_requested()
    before = signal.getsignal(number)
    with pytest.raises(SystemExit) as second, stop.caught():
        os.kill(os.getpid(), number)
        assert stop.signal == number
        reached.append("the first")
        os.kill(os.getpid(), number)
        reached.append("the second")
    with pytest.raises(SystemExit) as ready:
        stop.exit_if_requested()
    assert second.value.code == ready.value.code == status
    assert reached == ["the first"]
    assert signal.getsignal(number) == before
