"""Remove secrets from addresses before they reach a message, a log or a tracker."""

import re

SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
ADDRESS = re.compile(rf"{SCHEME.pattern}\S*")
HIDDEN = "***"


def redact_url(address: str) -> str:
    """An address without password, query and fragment; a user becomes ***.

    A password that was pasted unescaped may contain @ : / ? and #. Where it is ambiguous, because it may also be a
    query or a port, everything except the scheme is hidden.
    """
    found = SCHEME.match(address)
    scheme = found[0] if found else ""
    place, *query = re.split("[?#]", address[len(scheme) :], maxsplit=1)
    _, at, place = place.rpartition("@")
    if "@" in "".join(query) or (scheme and _has_no_port(place)):
        return f"{scheme}{HIDDEN}"
    return f"{scheme}{HIDDEN}@{place}" if at else scheme + place


def redact_text(text: object) -> str:
    """A text with every address in it redacted."""
    return ADDRESS.sub(lambda found: redact_url(found[0]), str(text))


def _has_no_port(place: str) -> bool:
    """Whether the part after the colon of the host is not a number: then it may be a password without its host."""
    host = place.partition("/")[0]
    return re.fullmatch(r"(\[[^\]]*\]|[^:]*)(:[0-9]*)?", host) is None
