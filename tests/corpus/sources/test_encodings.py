"""The encoding of a text is given, or detected and true of every byte."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from languages import PAIRS, STORY, encoded, is_read

from bukva.corpus.sources.encodings import BadEncodingError, decode, detect_encoding

RUSSIAN = "Был тихий вечер, и солнце уже садилось за лесом. Старик сидел у окна и смотрел на дорогу.\n" * 7


def read(raw: bytes) -> str:
    return decode(raw, detect_encoding(raw))


@pytest.mark.parametrize(("language", "encoding"), PAIRS)
def test_a_text_of_three_sentences_is_read_right_in_each_encoding(language, encoding) -> None:
    raw = encoded(STORY[language], encoding)
    assert is_read(raw, encoding)[0], is_read(raw, encoding)


def test_a_text_that_is_ascii_but_for_some_late_words_or_begins_like_a_picture_is_read_right() -> None:
    late = "Plain words, and nothing else, for a long while.\n" * 7001 + "Frau Müller und die Bäckerin hören zu.\n"
    assert is_read(late.encode("cp1252"), "cp1252") == (True, "cp1252")
    assert is_read(late.replace("\n", " ").encode("cp1252"), "cp1252")[0]  # a single line
    for start in ("BMW", "MZ", "ID3", "OggS"):
        assert is_read(f"{start}: {STORY['de']}".encode("cp1252"), "cp1252")[0]


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32", "utf-8"])
def test_a_byte_order_mark_decides_and_is_removed(encoding) -> None:
    mark = "" if encoding == "utf-32" else "\ufeff"
    assert read(f"{mark}x𝄞ж".encode(encoding)) == "x𝄞ж"


@pytest.mark.parametrize(
    ("encoding", "text"),
    [("iso2022-jp", "彼は海を見た。\nABC"), ("iso2022-kr", "그는 바다를 보았다."), ("hz", "他看着大海。~ OK")],
)
def test_a_text_in_an_encoding_of_ascii_bytes_is_read_right(encoding, text) -> None:
    assert text.encode(encoding).isascii()
    late = b"<meta charset=utf-8>" * 100_003 + text.encode(encoding)
    assert detect_encoding(late) == encoding
    assert read(text.encode(encoding)) == text


def test_a_text_that_has_signs_of_such_an_encoding_and_is_invalid_in_it_is_utf8() -> None:
    terminal_and_tex = ["\x1b[31mred\x1b[0m", "\\bar~{x}~\\cite{y}", "cost\x1b$5", "~{", "ж \x1b$B"]
    plus = "+380-44-123", "+420-1", "a+bcd-e", "1 + 1", "C++-x", "+7123-456", "x+foo-bar+1", "+foo-bar", "ж+BB4-"
    for text in (*terminal_and_tex, *plus):
        assert (detect_encoding(text.encode()), read(text.encode())) == ("utf-8", text)


@pytest.mark.parametrize("text", ["Привет, мир.", "für + wider", "日本", f"{'x' * (2**20 - 3)}日本"])
def test_utf7_is_an_error_and_not_ascii(text) -> None:
    with pytest.raises(BadEncodingError, match="looks like UTF-7"):
        detect_encoding(text.encode("utf-7"))
    assert decode(text.encode("utf-7"), "utf-8") == text.encode("utf-7").decode()


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\x1b~+")))
def test_all_utf8_without_switches_is_read_as_utf8(text) -> None:
    assert decode(text.encode(), "utf-8") == text.removeprefix("\ufeff")
    assert detect_encoding(b"x" + text.encode()) == "utf-8"


def test_what_a_page_declares_is_believed_before_a_guess_if_it_can_be_true() -> None:
    assert detect_encoding("<html><meta charset=koi8-r><p>Ёж".encode("koi8-r")) == "koi8-r"
    assert detect_encoding("<?xml version='1.0' encoding='windows-1251'?><p>Ёж".encode("cp1251")) == "cp1251"
    for name, superset in {"iso-8859-1": "cp1252", "iso-8859-9": "cp1254", "shift_jis": "cp932"}.items():
        assert detect_encoding(f"<meta charset={name}><p>“ÿ”, ﾃｽﾄ".encode(superset, "ignore")) == superset
    for name in ("utf-8", "no-such", "rot13", "idna"):
        assert detect_encoding(f"<meta charset={name}>".encode() + RUSSIAN.encode("cp1251")) == "cp1251"


@pytest.mark.parametrize("bad", [b"\xff", b"\xed\xa0\x80", b"\xd0"], ids=["no byte of UTF-8", "surrogate", "half"])
def test_utf8_with_a_damaged_character_is_no_other_encoding(bad) -> None:
    what = rf"byte {len(RUSSIAN.encode())} \(0x{bad[0]:02x}\) is not UTF-8, but the text around it is$"
    for after in ("", RUSSIAN):
        with pytest.raises(BadEncodingError, match=what):
            detect_encoding(RUSSIAN.encode() + bad + after.encode())


@pytest.mark.parametrize("order", ["le", "be"])
def test_utf16_without_a_byte_order_mark_is_not_taken_for_utf8_and_is_read_if_it_is_named(order) -> None:
    raw = "Nevermore.\n".encode(f"utf-16-{order}")
    for first in ("", "É", "Ёж "):
        with pytest.raises(BadEncodingError, match=r"^contains NUL, so .*UTF-16 .*utf-16-le or utf-16-be"):
            detect_encoding(first.encode(f"utf-16-{order}") + raw)
    with pytest.raises(BadEncodingError, match=r"has no byte order mark, with which UTF-16 must begin$"):
        decode(raw, "utf-16")
    assert decode(raw, f"utf-16-{order}") == "Nevermore.\n"


def test_a_file_of_no_text_has_no_encoding() -> None:
    with pytest.raises(BadEncodingError, match=r"^byte 1 \(0xff\) is not UTF-8, and no other encoding fits"):
        detect_encoding(b"\x01\xff\x03\x80\x05" * 1009)
    for encoding in ("utf-8", "utf-16", "utf-32", "cp1251", "gb18030"):
        with pytest.raises(BadEncodingError, match="contains NUL"):
            decode("Ёж\0жа\n".encode(encoding), encoding)
