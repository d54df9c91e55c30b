"""The encoding of a text is given, or detected and true of every byte."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bukva.corpus.sources.formats.encodings import PIECE_BYTES, BadEncodingError, decoded, detected

RUSSIAN = "Был тихий вечер, и солнце уже садилось за лесом. Старик сидел у окна и смотрел на дорогу.\n" * 7
CHINESE = "今天天气很好，我们去公园散步。孩子们在草地上玩耍。\n"
TEXTS = [
    ("Мой дядя самых честных правил,\nКогда не в шутку занемог", ["cp1251", "koi8-r", "cp866"]),
    ("La maison était grande, à côté il y avait un château où vivait une vieille dame.\n" * 5, ["cp1252", "mac-roman"]),
    ("Zażółć gęślą jaźń. Był piękny dzień, a dzieci bawiły się w ogrodzie.\n" * 5, ["cp1250"]),
    (CHINESE * 5, ["gb18030"]),
    ("今日は天気がいいので、公園へ散歩に行きました。\n" * 5, ["shift-jis"]),
]


def read(raw: bytes, encoding: str = "") -> str:
    """The text of these bytes in an encoding, or in the one that is detected."""
    return "".join(decoded(io.BytesIO(raw), encoding or found(raw)))


def found(raw: bytes) -> str:
    return detected(lambda: io.BytesIO(raw))


@pytest.mark.parametrize(
    ("text", "encoding"), [(text, encoding) for text, encodings in TEXTS for encoding in encodings], ids=ascii
)
def test_a_text_of_some_sentences_is_detected(text, encoding) -> None:
    assert read(text.encode(encoding)) == text


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32", "utf-8"])
def test_a_byte_order_mark_decides_and_is_removed_and_a_character_across_two_pieces_is_whole(encoding) -> None:
    text = "x" * (PIECE_BYTES - 2) + "𝄞ж"
    mark = "" if encoding == "utf-32" else "\ufeff"
    assert read(f"{mark}{text}".encode(encoding)) == text


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")))
def test_all_utf8_is_read_as_utf8(text) -> None:
    assert read(text.encode(), "utf-8") == text.removeprefix("\ufeff")
    assert found(b"x" + text.encode()) == "utf-8"


def test_what_a_page_declares_is_believed_before_a_guess_if_it_can_be_true() -> None:
    assert found("<html><meta charset=koi8-r><p>Ёж".encode("koi8-r")) == "koi8-r"
    assert found("<?xml version='1.0' encoding='windows-1251'?><p>Ёж".encode("cp1251")) == "cp1251"
    for name in ("utf-8", "no-such", "rot13", "idna"):
        assert found(f"<meta charset={name}>".encode() + RUSSIAN.encode("cp1251")) == "cp1251"


@pytest.mark.parametrize("bad", [b"\xff", b"\xed\xa0\x80", b"\xd0"], ids=["no byte of UTF-8", "surrogate", "half"])
def test_utf8_with_a_damaged_character_is_no_other_encoding(bad) -> None:
    start = len(RUSSIAN.encode())
    what = rf"byte {start} \(0x{bad[0]:02x}\) is not UTF-8, but the text around it is$"
    for after in ("", RUSSIAN):
        with pytest.raises(BadEncodingError, match=what):
            found(RUSSIAN.encode() + bad + after.encode())


@pytest.mark.parametrize("order", ["le", "be"])
def test_utf16_without_a_byte_order_mark_is_not_taken_for_utf8_and_is_read_if_it_is_named(order) -> None:
    raw = "Nevermore.\n".encode(f"utf-16-{order}")
    with pytest.raises(BadEncodingError, match=r"^contains NUL, as binary files and"):
        found(raw)
    with pytest.raises(BadEncodingError, match=r"has no byte order mark, with which UTF-16 begins$"):
        read(raw, "utf-16")
    assert read(raw, f"utf-16-{order}") == "Nevermore.\n"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-32", "cp1251", "gb18030"])
def test_a_nul_is_an_error_in_every_encoding(encoding) -> None:
    for before in ("", "Ёж", "x" * (PIECE_BYTES - 5) + "Ёж"):
        with pytest.raises(BadEncodingError, match="contains NUL"):
            read(f"{before}\0жа\n".encode(encoding), encoding)
