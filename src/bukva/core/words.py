def count(n: int, noun: str, plural: str = "") -> str:
    """Return for example "1 work", "2 works" or "1,024 tries"."""
    return f"{n:,} {noun if n == 1 else plural or f'{noun}s'}"
