"""Texts of which each has lines of its own."""

PASSAGE = "Мороз и солнце; день чудесный! Ещё ты дремлешь, друг прелестный."


def text_of(first, n=97):
    """Lines that no other number has."""
    return "".join(
        f"Строка {number * number * 7919 % 100_003} из {number}, а за ней {number * 104_729 % 99_991}.\n"
        for number in range(first, first + n)
    )
