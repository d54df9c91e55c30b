"""Sends checkpoints while a training goes on."""

import contextlib
import threading
from collections.abc import Iterator

from bukva.cluster.carry import Carrier
from bukva.cluster.job import News, Say
from bukva.core.errors import BukvaError

LOOK_SECONDS = 0.5


@contextlib.contextmanager
def sending(carrier: Carrier, say: Say) -> Iterator[None]:
    """Send each new checkpoint until the block ends, the last one too.

    In a thread, because a remote may be slow or away; what cannot be sent is news, once for each reason.
    """
    over = threading.Event()
    thread = threading.Thread(target=_send, args=(carrier, say, over), daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _send(carrier: Carrier, say: Say, over: threading.Event) -> None:
    reported, last = "", False
    while not last:
        last = over.wait(LOOK_SECONDS)  # before sending, so that the last round sends everything
        try:
            carrier.send()
        except BukvaError as error:
            if str(error) != reported:
                say(News("log", {"text": f"no checkpoint was sent: {error}"}))
            reported = str(error)
