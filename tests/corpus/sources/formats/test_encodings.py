"""The encoding of a text is given, or detected and true of every byte."""

import codecs
import contextlib
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bukva.corpus.sources.formats.encodings import (
    DETECTED,
    ENCODINGS,
    PIECE_BYTES,
    UnknownEncodingError,
    decoded,
    detected,
)

RUSSIAN = "Был тихий вечер, и солнце уже садилось за лесом. Старик сидел у окна и смотрел на дорогу.\n" * 7
TEXTS = [
    (RUSSIAN, ["cp1251", "koi8-r", "cp866", "iso8859-5"]),
    ("Мой дядя самых честных правил,\nКогда не в шутку занемог", ["cp1251", "koi8-r", "cp866"]),
    ("La maison était grande, à côté il y avait un château où vivait une vieille dame.\n" * 5, ["cp1252", "mac-roman"]),
    ("Die Straße war naß und kalt. Der Mann ging über die Brücke.\n" * 5, ["cp1252"]),
    ("Zażółć gęślą jaźń. Był piękny dzień, a dzieci bawiły się w ogrodzie.\n" * 5, ["cp1250"]),
    ("Καλημέρα κόσμε, σήμερα είναι μια όμορφη μέρα για περίπατο.\n" * 5, ["cp1253"]),
    ("今天天气很好，我们去公园散步。孩子们在草地上玩耍。\n" * 5, ["gb18030"]),
    ("今天天氣很好，我們去公園散步。孩子們在草地上玩耍。\n" * 5, ["big5"]),
    ("今日は天気がいいので、公園へ散歩に行きました。\n" * 5, ["shift-jis", "euc-jp"]),
    ("오늘은 날씨가 좋아서 공원에 산책하러 갔습니다.\n" * 5, ["euc-kr"]),
]
LONG = "x" * (PIECE_BYTES - 1)


def read(raw: bytes, encoding: str = "") -> str:
    """The text of these bytes in an encoding, or in the one that is detected."""
    return "".join(decoded(io.BytesIO(raw), encoding or detected(lambda: io.BytesIO(raw))))


@pytest.mark.parametrize(
    ("text", "encoding"), [(text, encoding) for text, encodings in TEXTS for encoding in encodings], ids=ascii
)
def test_a_text_of_some_sentences_is_detected(text, encoding) -> None:
    assert read(text.encode(encoding)) == text


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32", "utf-8-sig"])
def test_a_byte_order_mark_decides_and_is_removed(encoding) -> None:
    assert read("Ёж".encode(encoding)) == "Ёж"


@pytest.mark.parametrize("order", ["be", "le"])
def test_both_byte_orders_are_read(order) -> None:
    mark = getattr(codecs, f"BOM_UTF16_{order.upper()}")
    assert read(mark + f"{LONG}ёж".encode(f"utf-16-{order}")) == f"{LONG}ёж"


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")))
def test_all_utf8_is_read_as_utf8(text) -> None:
    assert read(text.encode(), "utf-8") == text.removeprefix("\ufeff")
    assert detected(lambda: io.BytesIO(b"x" + text.encode())) == "utf-8"


def test_a_first_strange_byte_far_from_the_start_is_found_and_the_sample_is_taken_there() -> None:
    text = "plain\n" * 700_000 + RUSSIAN
    assert read(text.encode("cp1251")) == text


@pytest.mark.parametrize("cut", range(3))
def test_a_character_across_two_pieces_is_whole(cut) -> None:
    text = "x" * (PIECE_BYTES - cut) + "𝄞ж"
    assert read(text.encode()) == text


def test_what_a_page_declares_is_believed_before_a_guess() -> None:
    page = "<html><meta charset=koi8-r><p>Ёж"
    assert detected(lambda: io.BytesIO(page.encode("koi8-r"))) == "koi8-r"
    declared = "<?xml version='1.0' encoding='windows-1251'?><p>Ёж"
    assert detected(lambda: io.BytesIO(declared.encode("cp1251"))) == "cp1251"


@pytest.mark.parametrize("name", ["utf-8", "no-such", "rot13", "hex", "idna"])
def test_a_declaration_that_cannot_be_true_is_not_believed(name) -> None:
    raw = f"<meta charset={name}>".encode() + RUSSIAN.encode("cp1251")
    assert detected(lambda: io.BytesIO(raw)) == "cp1251"


def test_bytes_that_no_encoding_has_are_an_error_with_the_first_byte() -> None:
    raw = b"text\n" + bytes(range(128, 256)) * 50 + b"\0" * 1000
    with pytest.raises(UnknownEncodingError, match=r"byte 5 \(0x80\) is not UTF-8, and no other encoding fits"):
        detected(lambda: io.BytesIO(raw))


@pytest.mark.parametrize("bad", [b"\xff", b"\xed\xa0\x80", b"\xd0"], ids=["no byte of UTF-8", "surrogate", "half"])
@pytest.mark.parametrize("after", ["", "\n", RUSSIAN], ids=["at the end", "in the last line", "within"])
def test_utf8_with_a_damaged_character_is_no_other_encoding(bad, after) -> None:
    start = len(RUSSIAN.encode())
    what = rf"byte {start} \(0x{bad[0]:02x}\) is not UTF-8, but the text around it is$"
    with pytest.raises(UnknownEncodingError, match=what):
        detected(lambda: io.BytesIO(RUSSIAN.encode() + bad + after.encode()))


def test_a_surrogate_is_no_other_encoding_where_all_else_is_ascii() -> None:
    with pytest.raises(UnknownEncodingError, match=r"byte 1000 \(0xed\) is not UTF-8"):
        detected(lambda: io.BytesIO(b"x" * 1000 + b"\xed\xa0\xbd\xed\xb8\x80" + b"x" * 1000))


@pytest.mark.parametrize("order", ["le", "be"])
@pytest.mark.parametrize("text", [RUSSIAN, "Nevermore.\n"], ids=["Russian", "English"])
def test_utf16_without_a_byte_order_mark_is_not_taken_for_utf8_and_is_read_if_it_is_named(text, order) -> None:
    raw = text.encode(f"utf-16-{order}")
    with pytest.raises(
        UnknownEncodingError, match=rf"^byte {raw.index(0)} \(0x00\) is NUL, as in binary files and in UTF"
    ):
        detected(lambda: io.BytesIO(raw))
    with pytest.raises(UnicodeDecodeError, match=r"is no byte order mark, with which UTF-16 begins$"):
        read(raw, "utf-16")
    assert read(raw, f"utf-16-{order}") == text


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-be", "utf-32", "cp1251", "gb18030"])
@pytest.mark.parametrize("before", ["", "Ёж", LONG[4:] + "Ёж"], ids=["first", "early", "in another piece"])
def test_a_nul_is_an_error_in_every_encoding_with_its_byte(before, encoding) -> None:
    raw = f"{before}\0жа\n".encode(encoding)
    with pytest.raises(UnicodeDecodeError, match="is NUL") as error:
        read(raw, encoding)
    assert error.value.start == len(before.encode(encoding))


def test_a_guess_that_fails_on_a_later_byte_is_not_taken() -> None:
    text = "今天天气很好，我们去公园散步。\n" * 5000  # longer than the sample
    raw = text.encode("gb18030") + b"\xff\xff"
    assert len(raw) > 2**16
    with contextlib.suppress(UnknownEncodingError):
        assert detected(lambda: io.BytesIO(raw)) != "gb18030"


def test_every_encoding_is_a_codec_that_reads_streams() -> None:
    for name in ENCODINGS[1:]:
        assert codecs.getincrementaldecoder(name)
    assert len({codecs.lookup(name).name for name in ENCODINGS[1:]}) == len(ENCODINGS) - 1
    assert {"auto", "utf-8", "utf-16", "utf-16-le", "utf-16-be", "utf-32"} == set(ENCODINGS) - set(DETECTED)
