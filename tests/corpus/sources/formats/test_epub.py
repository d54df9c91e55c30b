"""An epub gives its chapters in the order of the spine; one that is damaged, protected or too large is an error."""

import zipfile
from pathlib import Path

import pytest
from corpus.sources.formats.made import XHTML, epub

from bukva.base.errors import BukvaError
from bukva.corpus.sources import archives
from bukva.corpus.sources.formats import epub as reader
from bukva.corpus.sources.formats.base import TextFile, UnreadableError
from bukva.corpus.sources.formats.epub import is_epub, read_epub


def text_of(path: Path) -> str:
    (text,) = read_epub(TextFile(path, f"books/{path.name}"))
    return "".join(text.pieces)


def test_chapters_are_read_in_the_order_of_the_spine_without_the_contents(tmp_path) -> None:
    chapters = {
        "b.xhtml": "<p>раз</p>",
        "a.xhtml": "<p>два<br/>три</p>",
        "nav.xhtml": "<li>нет</li>",
        "un.xhtml": "нет",
    }
    book = epub(tmp_path / "a.epub", chapters, ["b.xhtml", "nav.xhtml", "a.xhtml"])
    assert text_of(book) == "раз\nдва\nтри\n"


@pytest.mark.parametrize("package", ["book.opf", "OPS/book.opf", "a/b/c.opf"])
def test_names_are_relative_to_the_package_and_may_be_escaped(package, tmp_path) -> None:
    assert text_of(epub(tmp_path / "a.epub", {"глава 1.xhtml": "ж"}, package=package)) == "ж\n"


def test_a_chapter_in_another_encoding_is_read_as_it_declares(tmp_path) -> None:
    book = epub(tmp_path / "a.epub", {}, others={"OPS/a.xhtml": b""})
    raw = XHTML.replace("utf-8", "windows-1251").format("<p>Ёж</p>").encode("cp1251")
    with zipfile.ZipFile(book, "w") as file:
        file.writestr("META-INF/container.xml", '<a><rootfile full-path="b.opf"/></a>')
        file.writestr("b.opf", '<p><manifest><item id="a" href="a.html" media-type="text/html"/></manifest>'
                               '<spine><itemref idref="a"/></spine></p>')  # fmt: skip
        file.writestr("a.html", raw)
    assert text_of(book) == "Ёж\n"


def test_an_epub_is_known_by_its_first_bytes(tmp_path) -> None:
    assert is_epub(epub(tmp_path / "a.zip", {"a.xhtml": "x"}))
    with zipfile.ZipFile(tmp_path / "b.epub", "w") as file:
        file.writestr("a.txt", "x")
    assert not is_epub(tmp_path / "b.epub")


ENCRYPTED = (
    '<encryption><EncryptedData xmlns="http://www.w3.org/2001/04/xmlenc#"><CipherData>'
    '<CipherReference URI="{}"/></CipherData></EncryptedData></encryption>'
)


def test_a_protected_book_is_an_error_and_one_with_protected_fonts_is_not(tmp_path) -> None:
    def book(name: str) -> Path:
        encryption = {"META-INF/encryption.xml": ENCRYPTED.format(name).encode()}
        return epub(tmp_path / "a.epub", {"a b.xhtml": "x"}, others=encryption)

    assert text_of(book("OPS/font.otf")) == "x\n"
    with pytest.raises(UnreadableError, match=r"^books/a\.epub: chapter OPS/a b\.xhtml is encrypted; only a book"):
        text_of(book("OPS/a%20b.xhtml"))


@pytest.mark.parametrize(
    ("container", "package", "why"),
    [
        ("", "", "not XML"),
        ("<a/>", "", "no rootfile"),
        ('<a><rootfile full-path="none.opf"/></a>', "", "'none.opf'"),
        ('<a><rootfile full-path="b.opf"/></a>', '<p><spine><itemref idref="a"/></spine></p>', "'a'"),
        ('<a><rootfile full-path="b.opf"/></a>',
         '<p><manifest><item id="a" href="../../x" media-type="text/html"/></manifest>'
         '<spine><itemref idref="a"/></spine></p>', r"'\.\./\.\./x'"),
    ],
    ids=ascii,
)  # fmt: skip
def test_a_book_without_a_part_of_its_structure_is_an_error(container, package, why, tmp_path) -> None:
    with zipfile.ZipFile(tmp_path / "a.epub", "w") as file:
        file.writestr("META-INF/container.xml", container)
        file.writestr("b.opf", package)
    with pytest.raises(UnreadableError, match=rf"^books/a\.epub: damaged, or not an epub \(.*{why}.*\); get the file"):
        text_of(tmp_path / "a.epub")


def test_a_book_that_is_cut_or_changed_anywhere_is_an_error_or_the_same_text(tmp_path) -> None:
    whole = epub(tmp_path / "a.epub", {"a.xhtml": "<p>Был тихий вечер</p>"}).read_bytes()
    changed = [whole[:n] for n in range(0, len(whole), 17)]
    changed += [whole[:n] + bytes([whole[n] ^ 0xFF]) + whole[n + 1 :] for n in range(0, len(whole), 17)]
    texts = set()
    for raw in changed:
        (tmp_path / "b.epub").write_bytes(raw)
        try:
            texts.add(text_of(tmp_path / "b.epub"))
        except BukvaError as error:
            assert str(error).startswith(("books/b.epub: ", "b.epub"))  # noqa: PT017
    assert texts <= {"Был тихий вечер\n", ""}


@pytest.mark.parametrize("bomb", [False, True])
def test_entities_of_a_document_are_not_expanded_or_fetched(bomb, tmp_path) -> None:
    (tmp_path / "secret").write_text("secret")
    entities = "".join(f'<!ENTITY a{n + 1} "{f"&a{n};" * 10}">' for n in range(9 if bomb else 0))
    use = f"&s;&a{9 if bomb else 0};"
    doctype = f'<!DOCTYPE p [<!ENTITY a0 "haha"><!ENTITY s SYSTEM "file://{tmp_path}/secret">{entities}]>'
    book = epub(tmp_path / "a.epub", {"a.xhtml": "x"})
    with zipfile.ZipFile(book, "w") as file:
        file.writestr("META-INF/container.xml", f'{doctype}<a>{use}<rootfile full-path="b.opf"/></a>')
        file.writestr("b.opf", f'{doctype}<p>{use}<manifest><item id="a" href="a.html" media-type="text/html"/>'
                               '</manifest><spine><itemref idref="a"/></spine></p>')  # fmt: skip
        file.writestr("a.html", f"{doctype}<p>ж{use}</p>")
    if bomb:
        with pytest.raises(UnreadableError, match=r"books/a\.epub: damaged"):
            text_of(book)
    else:
        text = text_of(book)
        assert "ж" in text
        assert "secret" not in text
        assert "haha" not in text


def test_a_chapter_above_the_bound_is_an_error(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(reader, "MAX_WHOLE_BYTES", 5003)
    with pytest.raises(UnreadableError, match=r"books/a\.epub: .*OPS/a\.xhtml has more than 5003 bytes"):
        text_of(epub(tmp_path / "a.epub", {"a.xhtml": "x" * 5003}))


def test_the_bounds_of_archives_hold(tmp_path, monkeypatch) -> None:
    book = epub(tmp_path / "a.epub", {"a.xhtml": "x" * 5003})
    monkeypatch.setattr(archives, "MAX_BYTES", 5003)
    with pytest.raises(BukvaError, match=r"^a\.epub, entry .*: with it the archive unpacks to more than 5003 bytes"):
        text_of(book)
