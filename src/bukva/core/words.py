from collections.abc import Sequence


def few(names: Sequence[str], most: int = 3) -> list[str]:
    """Return `most` names, and after them the number of all others, for example "2 more"."""
    more = len(names) - most
    return [*names[:most], f"{more} more"] if more > 0 else list(names)


def count(n: int, noun: str, plural: str = "") -> str:
    """Return for example "1 work", "2 works" or "1,024 tries"."""
    return f"{n:,} {noun if n == 1 else plural or f'{noun}s'}"
