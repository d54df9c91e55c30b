"""Addresses as people, logs and trackers may see them: a secret in one stays where it was written."""

import re

SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
ADDRESS = re.compile(rf"{SCHEME.pattern}\S*")
HIDDEN = "***"


def shown(address: str) -> str:
    """An address without user, password, query and fragment, and whether there was a user.

    A password that somebody pasted as it is may hold @ : / ? and #. Where it cannot be told from a query or a port, all
    but the scheme is hidden.
    """
    found = SCHEME.match(address)
    scheme = found[0] if found else ""
    place, *query = re.split("[?#]", address[len(scheme) :], maxsplit=1)
    _, at, place = place.rpartition("@")
    if "@" in "".join(query) or (scheme and _has_no_port(place)):
        return f"{scheme}{HIDDEN}"
    return f"{scheme}{HIDDEN}@{place}" if at else scheme + place


def without_password(text: object) -> str:
    """A text for people and logs: every address in it as `shown`."""
    return ADDRESS.sub(lambda found: shown(found[0]), str(text))


def _has_no_port(place: str) -> bool:
    """Whether what follows the host's colon is no number: then it may be a password that has lost its host."""
    host = place.partition("/")[0]
    return re.fullmatch(r"(\[[^\]]*\]|[^:]*)(:[0-9]*)?", host) is None
