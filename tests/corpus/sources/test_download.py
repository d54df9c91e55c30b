"""Five sources of a corpus give the same kind of collection; a mistake is one sentence that says where it is."""

import gzip
import lzma
import os
import shutil
import zipfile
from collections.abc import Mapping
from hashlib import sha256 as digest_of
from pathlib import Path

import pytest
from corpus.serving import send, serving
from corpus.sources.formats.made import docx, epub, fb2, jsonl, odt, parquet, zipped
from downloads import get, tar_gz, write
from works import texts_in

from bukva.core.errors import BukvaError, ParamsError
from bukva.corpus.sources import download as sources
from bukva.corpus.sources.download import registry
from bukva.corpus.sources.formats import conversion
from bukva.text.collection import Work


def noted(target: Path, **params: object) -> list[str]:
    notes: list[str] = []
    get(target, note=notes.append, **params)
    return [note.removeprefix("download: ").replace(str(params.get("path")), "books") for note in notes]


@pytest.fixture
def at(server):
    """The function returned gives the parameters of a download of this body from a path of the server."""
    url = {"corpus": "url"}
    return lambda path, body: url | {"url": server.has(path, body), "sha256": digest_of(body).hexdigest()}


@pytest.fixture
def fails(target: Path):
    """The function returned checks that a download raises these words, and changes nothing."""

    def check(words: str, **params: str | Path) -> None:
        write(target, {"former.txt": "former"})
        with pytest.raises(ParamsError, match=words) as error:
            get(target, **params)
        assert "\n" not in str(error.value)
        assert [path.name for path in target.parent.iterdir()] == ["raw"]
        assert [path.name for path in target.iterdir()] == ["former.txt"]

    return check


def test_folders_become_category_author_and_work_and_are_counted(source, target, monkeypatch, tmp_path) -> None:
    names = ["poems/Blok/Скифы.txt", "prose/Blok/Нос. Том 1.txt", "letter.txt", "Gogol/cycle/1.txt"]
    write(source, {name: name for name in names} | {"prose/Blok/info.csv": "name,year\nНос. Том 1,1901"})
    monkeypatch.setenv("BUKVA_ROOT", str(tmp_path))
    monkeypatch.chdir("/")
    summary = get(target, path=Path("books"))  # relative to the project
    assert list(texts_in(target).items()) == [
        (Work("-", "-", "letter"), "letter.txt"),
        (Work("Gogol", "cycle", "1"), "Gogol/cycle/1.txt"),
        (Work("poems", "Blok", "Скифы"), "poems/Blok/Скифы.txt"),
        (Work("prose", "Blok", "Нос. Том 1", "1901"), "prose/Blok/Нос. Том 1.txt"),
    ]
    n_chars, n_bytes = len("".join(names)), len("".join(names).encode())
    expected = {"works": 4, "authors": 2, "categories": 3, "chars": n_chars, "bytes": n_bytes, "works_without_year": 3}
    assert summary == dict.fromkeys(summary, 0) | expected


def test_text_is_unchanged_except_for_byte_order_marks_and_those_inside_are_told(source, target) -> None:
    write(source, {"a.txt": "\ufeffодин\r\nдва\rтри\n\n \u2028", "b.txt": "\ufeff\ufeffx", "c.txt": "x\ufeff\ny\ufeff"})
    write(source, {"d.jsonl": '{"text": "one"}\n{"text": "\ufefftwo"}'})
    places = "books/b.txt, books/c.txt, books/d.jsonl, row 2"
    words = f"Removed byte order marks (U+FEFF) from 3 texts: {places}."
    assert noted(target, path=source) == [words]
    assert list(texts_in(target).values()) == ["один\r\nдва\rтри\n\n \u2028", "x", "x\ny", "one", "two"]


def test_a_place_without_texts_is_rejected_with_what_it_has_instead(source, fails) -> None:
    place = rf"^params\.yaml, download\.path: '{source}/"
    fails(rf"{place}none' does not exist\. Use a folder of texts or a single text", path=source / "none")
    fails(r"download\.path: 'https://\*\*\*@host/x' does not exist", path="https://gogol:overcoat@host/x?key=n0se")
    write(source, {"a/info.csv": "name,year", ".b.txt": "x"})
    fails(rf"^{source}: contains no \.txt, \.md, .* or \.parquet file\.$", path=source)
    write(source, {"a.py": "x", "b.py": "x", "Makefile": "x"})
    others = r"Did not read 3 files of other types \(to read such files as .*\): .*/Makefile, .*/a\.py, .*/b\.py\."
    fails(others, path=source)
    unread = r"is not a \.txt, \.md, .* file\. If it is plain text,"
    fails(rf"{place}a\.py' {unread} add \.py to download\.extensions\.$", path=source / "a.py")
    fails(rf"{place}Makefile' {unread} rename it to \.txt\.$", path=source / "Makefile")


def test_years_are_text_and_rows_without_a_work_are_told(source, target) -> None:
    write(source, {f"c/A/{work}.txt": "x" for work in ("one", "a, b", "range", "empty", "none")} | {"c/B/b.txt": "x"})
    info = 'name,year\none,1863\n"a, b",1900\nrange,1863-1869\nempty,\nno such file,2\nb,1\nshort\n"open,4\n'
    write(source, {"c/A/info.csv": info, "c/D/info.csv": "name,year\nb,1\n"})
    assert noted(target, path=source) == [  # b is another author's, and D has no works at all
        "Ignored 3 rows of info.csv for works that do not exist: b, b, no such file.",
        "Ignored 2 rows of info.csv because of errors: books/c/A/info.csv, row 7 (has 1 cells, but the header has 2), "
        "books/c/A/info.csv, row 8 (has invalid quotes (unexpected end of data)).",
    ]
    years = {work.work: work.year for work in texts_in(target)}
    expected = {"one": "1863", "a, b": "1900", "range": "1863-1869"}
    assert years == dict.fromkeys(("empty", "none", "b")) | expected


@pytest.mark.parametrize(("delimiter", "encoding"), [(";", "cp1251"), ("\t", "utf-16")])
def test_years_are_read_from_an_info_csv_that_excel_saved(delimiter, encoding, source, target) -> None:
    info = "name,year\r\nПовесть о любви,1863\r\nВечер в деревне,1864\r\n".replace(",", delimiter)
    write(source, {"Повесть о любви.txt": "x", "Вечер в деревне.txt": "x", "info.csv": info.encode(encoding)})
    write(source, {"b/info.csv": "name,year\0"})
    detected, unreadable = noted(target, path=source)
    assert detected == f"Read 1 file in a detected encoding (download.encoding): books/info.csv ({encoding})."
    assert unreadable.startswith("Ignored 1 row of info.csv because of errors: books/b/info.csv (contains NUL")
    assert [work.year for work in texts_in(target)] == ["1864", "1863"]


def test_a_text_at_an_address_is_one_work_with_a_valid_name(target) -> None:
    with serving(lambda request: send(request, b"x\r\n", {})) as address:
        paths = {"/b/Vojna%20i%20mir.txt": "Vojna_i_mir", "/a/%2e%2e%2f%2e%2e%2f.txt": "txt", "/": "text"}
        for path, work in paths.items():
            get(target, "url", url=f"{address}{path}?raw=/1", sha256=digest_of(b"x\r\n").hexdigest())
            assert texts_in(target) == {Work("-", "-", work): "x\r\n"}


@pytest.mark.parametrize(
    ("files", "works", "said"),
    [
        ("Chekhov/a.txt Chekhov/b.txt Chekhov/img/1.png", "-/Chekhov/a -/Chekhov/b", "is the author"),
        ("books/Blok/a.txt books/Gogol/b.txt", "-/Blok/a -/Gogol/b", "folders inside books are the authors"),
        ("RusLit-f00/poems/Blok/a.txt RusLit-f00/README.md", "-/-/README.md poems/Blok/a", ""),
        ("poems/Blok/a.txt prose/Gogol/b.txt", "poems/Blok/a prose/Gogol/b", ""),
        ("books/Blok/1.txt __MACOSX/books/Blok/._1.txt .DS_Store", "-/Blok/1", "the authors"),
        ("book.txt", "-/-/book", ""),
    ],
)
def test_the_only_folder_of_an_archive_is_an_author_if_none_is_inside(files, works, said, at, target) -> None:
    notes = noted(target, **at("/books", tar_gz(dict.fromkeys(files.split(), "x"))))
    assert sorted(work.name for work in texts_in(target)) == works.split()
    assert bool(said) == any("pack" in note for note in notes)
    assert said in "".join(notes)


def test_a_zip_that_is_a_book_is_one_and_other_zips_are_folders(at, target, tmp_path) -> None:
    word, office = docx("<w:p><w:t>раз</w:t></w:p>", core=""), odt("<text:p>раз</text:p>") | {"meta.xml": "<a/>"}
    book = fb2("<p>раз</p>", encoding="windows-1251")
    several = {"1.fb2": book, "2.fb2.zip": zipped(tmp_path / "e", {"x.fb2": book}).read_bytes()}
    for path, names in (
        (epub(tmp_path / "a", {"a.xhtml": "<p>раз"}), ["download"]),
        (zipped(tmp_path / "b", word), ["download"]),
        (zipped(tmp_path / "c", office), ["download"]),
        (zipped(tmp_path / "d", {"1.fb2": book}), ["1.fb2"]),
        (zipped(tmp_path / "f", several), ["1.fb2", "2.fb2.zip"]),
    ):
        noted(target, **at("/download", path.read_bytes()))
        assert texts_in(target) == {Work("-", "-", name): "раз\n" for name in names}


def test_names_that_were_guessed_in_an_archive_are_told(at, target, tmp_path) -> None:
    body = zipped(tmp_path / "a.zip", {"12345.txt": "раз"}).read_bytes().replace(b"12345", "Книга".encode("cp866"))
    words = "Guessed the encoding of 1 file name in a zip, because UTF-8 does not fit: Книга.txt (cp866)."
    assert noted(target, **at("/a.zip", body)) == [words]
    assert texts_in(target) == {Work("-", "-", "Книга"): "раз"}


def test_a_txt_that_begins_like_another_type_is_read_and_told(source, target) -> None:
    write(source, {"a.txt": "{\\rtf1 x", "b.TXT": "\n<!DOCTYPE HTML><p>x", "c.txt": "<br> {\\rtf", "d.py": "<html>"})
    words = "with markup, because it begins like a file of another type; rename or convert such files"
    listed = "books/a.txt ({\\rtf), books/b.TXT (<!DOCTYPE HTML)"
    assert noted(target, path=source, extensions=[".py"]) == [f"Read 2 .txt files {words}: {listed}."]
    assert len(texts_in(target)) == 4


def test_a_file_whose_content_is_of_another_type_is_left_out_and_its_type_told(source, target, fails, at) -> None:
    book, table = zipped(source / "book.txt", docx("")), parquet(source / "table.json", {"text": ["x"]})
    real = {  # name -> content and type
        "b.docx": (gzip.compress(b"x"), ".gz"),
        "base.md": (b"SQLite format 3\0", ".sqlite"),
        "c.txt": (lzma.compress(b"x"), ".xz"),
        "d.txt": (b"Rar!\x1a\x07\1\0", ".rar"),
        "e.html": (b"\x89PNG\r\n\x1a\n\0", ".png"),
        "f.txt": (zipped(source / "f", {"x": ""}).read_bytes(), ".zip"),
        "g.epub": (b"%PDF-1.4 \0", ".pdf"),
        "i.txt": (tar_gz({"x": "x"}, mode="w:"), ".tar"),
        "book.txt": (book.read_bytes(), ".docx"),
        "table.json": (table.read_bytes(), ".parquet"),
    }
    write(source, {name: content for name, (content, _) in real.items()})
    write(source, {"a.txt": "x", "h.docx": book.read_bytes()[:-9]})
    damaged, misnamed, *_ = noted(target, path=source)
    assert damaged.startswith("Left out 1 file because of errors: books/h.docx (is damaged")
    assert misnamed.startswith("Left out 10 files with the extension of another type; rename or convert such files: ")
    for name, (_, extension) in real.items():
        assert f"books/{name} (its content is {extension})" in misnamed
    assert list(texts_in(target).values()) == ["x"]
    shutil.rmtree(target)
    fails(r"^local: no file has readable text\. Left out 1 file .* \(its content is \.docx\)\.$", path=book)
    get(target, **at("/table", table.read_bytes()))
    assert list(texts_in(target).values()) == ["x"]


def test_two_works_of_one_name_are_an_error_that_names_both_files(source, fails) -> None:
    write(source, {"a/й.txt": "x", "a/и\u0306.txt": "y", "b/й.txt": "z"})  # macOS and Linux write й in different ways
    words = rf"^{source}/a/й\.txt and {source}/a/й\.txt are works with the same name, -/a/й\. Rename one of them\.$"
    fails(words, path=source)
    (source / "a" / "и\u0306.txt").rename(source / "a" / "й.TXT")
    fails(rf"^{source}/a/й\.TXT and {source}/a/й\.txt are works with the same name", path=source)


def test_an_epub_that_is_a_folder_is_read_as_the_book_that_it_is(source, target, at, tmp_path) -> None:
    chapters = {"nav.xhtml": "Contents", "a.xhtml": "<p>два</p>", "b.xhtml": "<p>раз</p>"}
    with zipfile.ZipFile(epub(tmp_path / "zip", chapters, ["nav.xhtml", "b.xhtml", "a.xhtml"])) as packed:
        parts = {name: packed.read(name) for name in packed.namelist()}
    for book in ("Нос.epub", "Гоголь/Нос.epub", "prose/Гоголь/Нос"):
        write(source / book, parts)
    os.utime(source / "Нос.epub" / "mimetype", (0, 0))  # a zip cannot store a time before 1980
    get(target, path=source)
    names = "-/-/Нос.epub", "-/Гоголь/Нос.epub", "prose/Гоголь/Нос"
    assert {work.name: text for work, text in texts_in(target).items()} == dict.fromkeys(names, "раз\nдва\n")
    zipped(tmp_path / "b.zip", {f"Нос.epub/{name}": content for name, content in parts.items()})
    for params, name in (
        ({"path": source / "Нос.epub"}, "Нос.epub"),
        (at("/a.tar", tar_gz({f"Нос.epub/{name}": content for name, content in parts.items()})), "Нос.epub"),
        (at("/b.zip", (tmp_path / "b.zip").read_bytes()), "Нос.epub"),
        (at("/c.tar", tar_gz(parts)), "c.tar"),
    ):
        get(target, **params)
        assert texts_in(target) == {Work("-", "-", name): "раз\nдва\n"}


def test_what_a_book_says_is_used_where_folders_and_info_do_not(source, target) -> None:
    said = "<dc:title>Нос</dc:title><dc:creator>Гоголь</dc:creator><dc:date opf:event='creation'>1835</dc:date>"
    write(source, {"prose/Чехов/info.csv": "name,year\n3,1900", "Чехов/.a": ""})
    for name in ("1.epub", "Нос.epub", "Чехов/2.epub", "prose/Чехов/3.epub"):
        epub(source / name, {"a": "x"}, metadata=said)
    words = "Found an author, title or year that paths and info.csv do not contain in 4 files"
    listed = "books/1.epub (Гоголь, Нос, 1835), books/Нос.epub (Гоголь, 1835), books/prose/Чехов/3.epub (Нос)"
    assert noted(target, path=source) == [f"{words}: {listed} and 1 more."]
    assert list(texts_in(target)) == [
        Work("-", "Гоголь", "1.epub Нос", "1835"),
        Work("-", "Гоголь", "Нос.epub", "1835"),
        Work("-", "Чехов", "2.epub Нос", "1835"),
        Work("prose", "Чехов", "3.epub Нос", "1900"),
    ]


def test_mistakes_at_an_address_are_reported(server, at, fails) -> None:
    fails("status 404", corpus="url", url=server.address + "/none", sha256="0" * 64)
    for body, words in (
        (b"\xff\xffx", r": a\.txt \(byte 0 \(0xff\) is not UTF-8\)\.$"),
        (tar_gz({"../x.txt": "x"}), r"^a\.txt, entry '\.\./x\.txt': its name leads outside the target folder"),
        (tar_gz({"x/c/a/bad.txt": b"\xe0"}), r": a\.txt/c/a/bad\.txt \(byte 0 "),
        (tar_gz({}), r"^a\.txt: contains no \.txt, \.md, "),
    ):
        fails(words, encoding="utf-8", **at("/a.txt", body))


@pytest.fixture
def pinned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Make ruslit a small archive in a mirror: two pinned folders with a work in CP1251, and the given files."""
    works = {"poems/Blok/1.txt": "раз", "prose/Gogol/2.txt": "два".encode("cp1251")}
    write(tmp_path / "tree", works)
    folders = {name: sources.folder_digest(tmp_path / "tree" / name) for name in ("poems", "prose")}
    encodings = {"prose/Gogol/2.txt": "cp1251"}
    entry = registry()["ruslit"] | {"file": "r.tar.gz", "root": "r-1", "folders": folders, "encodings": encodings}
    monkeypatch.setattr(sources, "registry", lambda: {"ruslit": entry})
    monkeypatch.setenv("BUKVA_MIRROR", str(tmp_path / "mirror"))

    def write_archive(files: Mapping[str, str | bytes]) -> None:
        packed = tar_gz({f"r-1/{name}": content for name, content in (works | dict(files)).items()})
        write(tmp_path / "mirror", {"r.tar.gz": packed})

    return write_archive


def test_only_the_pinned_folders_of_an_archive_are_read_and_only_with_their_content(
    pinned, target, fails, tmp_path, monkeypatch
) -> None:
    pinned({"README.txt": "not pinned", "letters/x.txt": b"\xff"})
    get(target, "ruslit")
    assert texts_in(target) == {Work("poems", "Blok", "1"): "раз", Work("prose", "Gogol", "2"): "два"}
    shutil.rmtree(target)
    words = r"^r\.tar\.gz, folder poems: its SHA-256 is [0-9a-f]{64}, not [0-9a-f]{64}\. Use the archive"
    for change in ({"poems/Blok/1.txt": "раз\n"}, {"poems/new.txt": "x"}, {"poems/.hidden": ""}):
        pinned(change)
        fails(words, corpus="ruslit")
    write(tmp_path / "mirror", {"r.tar.gz": tar_gz({"r-1/poems/Blok/1.txt": "раз"})})
    fails("folder prose: its SHA-256 is missing", corpus="ruslit")
    monkeypatch.setattr(sources, "registry", registry)
    write(tmp_path / "mirror", {registry()["tinyshakespeare"]["file"]: "x"})
    fails(r"tinyshakespeare\.txt: its SHA-256 is .*, not ", corpus="tinyshakespeare")


AS_PLAIN = "to read such files as plain text, add their extension to download.extensions"


def test_types_with_a_known_command_are_told_with_it_and_not_as_plain_text(source, target) -> None:
    write(source, {"a.txt": "x", "мой дневник.pdf": b"%PDF-1.4", "b.MOBI": b"", "c.jpg": b""})
    assert noted(target, path=source) == [
        "Did not read 2 files; convert each file with the command after its name: books/b.MOBI "
        "(ebook-convert books/b.MOBI books/b.epub), books/мой дневник.pdf "
        "(pdftotext -enc UTF-8 'books/мой дневник.pdf' 'books/мой дневник.txt').",
        f"Did not read 1 file of other types ({AS_PLAIN}): books/c.jpg.",
    ]
    # an archive is unpacked at once, and a compressed file becomes itself
    commands = {"a.tar.gz": "tar -xf", "a.TAR.xz": "tar -xf", "a.txt.gz": "gunzip --keep"}
    assert {name: conversion(name) for name in commands} == {name: f"{how} {name}" for name, how in commands.items()}


def test_a_file_of_a_type_with_a_known_command_is_refused_with_it(source, fails, at) -> None:
    write(source, {"мой дневник.pdf": b"%PDF-1.4"})
    pdf = source / "мой дневник.pdf"
    fails(rf"download\.path: '{pdf}' has a type that cannot be read\. Convert it with `pdftotext -enc UTF-8 ", path=pdf)
    words = r"^1\.doc: .* convert it with `soffice .* 1\.doc`, and"
    fails(words, **at("/1.doc", b"\xd0\xcf\x11\xe0"))
    fails(r"^1: .* `pdftotext", **at("/pdf/1", b"%PDF-1.4 \0"))


def test_files_without_texts_are_told_with_what_they_have_and_info_csv_is_no_table(source, target, fails) -> None:
    write(source, {"a.txt": "x", "metadata.csv": "id;author\n1;Блок\n", "info.csv": "name,text,year\na,нет,1900\n"})
    write(source, {"poems.csv": "text,author\nраз,Блок\n", "config.json": '{"a": 1}', "empty.csv": "text\n"})
    write(source, {"pom.xml": "<project/>"})
    assert noted(target, path=source) == [
        "Left out 1 file without text: books/empty.csv (contains no text).",
        "Did not read 3 files of XML other than TEI, or of tables without the column that download.text_column names "
        f"({AS_PLAIN}): books/config.json (has no column 'text'; its columns are: a), books/metadata.csv (has no "
        "column 'text'; its columns are: id, author), books/pom.xml (its root is <project>, not <TEI> or <TEI.2> or "
        "<teiCorpus>).",
    ]
    works = {Work("-", "-", "a", "1900"): "x", Work("-", "Блок", "poems.csv#000000001"): "раз"}
    assert texts_in(target) == works
    shutil.rmtree(target)
    words = r"local: no file has readable text\. .* 1 file.*metadata\.csv \(has no column 'text'; its columns are: id, "
    fails(words, path=source / "metadata.csv")


GARBAGE = b"text\n" + bytes(range(128, 256)) * 50 + b"\0" * 1000


def test_a_mixed_folder_is_read_type_by_type(source, target) -> None:
    write(source, {"Poe/raven.txt": "Nevermore.\n", "Poe/raven.md": "*Bells*", "Poe/raven.c": "1", "c.HTML": "<p>раз"})
    write(source, {"Poe/info.csv": "name,year\nraven,1845\n", "info.csv": "name,year\nдва,1835\n"})
    jsonl(source / "posts.jsonl", [{"text": "один"}, {"text": "два", "author": "А", "category": "c", "year": 1900}])
    zipped(source / "два.fb2.zip", {"x.fb2": fb2("<p>раз</p>", "<author><last-name>Гоголь</last-name></author>")})
    noted(target, path=source, extensions=[".c"])
    assert texts_in(target) == {
        Work("-", "Гоголь", "два.fb2.zip", "1835"): "раз\n",
        Work("-", "-", "c.HTML"): "раз\n",
        Work("-", "-", "posts.jsonl#000000001"): "один",
        Work("c", "А", "posts.jsonl#000000002", "1900"): "два",
        Work("-", "Poe", "raven.md", "1845"): "Bells\n",
        Work("-", "Poe", "raven.c", "1845"): "1",
        Work("-", "Poe", "raven", "1845"): "Nevermore.\n",
    }


def test_bad_files_and_rows_are_left_out_counted_and_named(source, target) -> None:
    write(source, {"good.txt": "да", "empty.txt": " \n", "empty.html": "<p></p>", "bad.epub": b"PK"})
    write(source, {"bad.parquet": b"PAR1", "c.jpg": b"\xff", "locked/a.TXT": "нет", "garbage.txt": GARBAGE})
    write(source, {".b.txt": "нет", ".git/c.txt": "нет", "~$a.docx": "нет"})
    write(source, {"Makefile": "", "e.jpg": ""})
    jsonl(source / "rows.jsonl", [{"text": "раз"}, "{", {"text": ""}, {"text": "два"}])
    notes: list[str] = []
    summary = get(target, path=source, note=notes.append)
    assert sorted(texts_in(target).values()) == ["да", "два", "нет", "раз"]
    kinds = "files_without_text", "files_unreadable", "bad_rows", "files_of_other_types"
    assert [summary[kind] for kind in kinds] == [2, 3, 2, 3]
    empty, unreadable, rows, others = (note.replace(str(source), "books") for note in notes)
    assert empty == "download: Left out 2 files without text: books/empty.html, books/empty.txt (contains no text)."
    assert unreadable.startswith(
        "download: Left out 3 files because of errors: books/bad.epub (is damaged, or is not an"
    )
    assert "books/garbage.txt (contains NUL, so it is a binary file or UTF-16 without a byte order mark" in unreadable
    assert rows.endswith("books/rows.jsonl, row 3 (has no text in column 'text').")
    assert others.endswith("books/Makefile, books/c.jpg, books/e.jpg.")


def test_a_reason_is_given_once_with_all_that_it_concerns_and_a_new_one_is_always_named(source, target) -> None:
    lines = ["{"] * 30 + ['{"text": "раз"}'] + ['{"text": ""}'] * 2 + [f'{{"text": "раз"}}{n}' for n in range(11)]
    jsonl(source / "a.jsonl", lines)
    named = [f"books/a.jsonl, row {n}" for n in (1, 2, 3, 32, 34)]
    reasons = "is not JSON (Expecting property name enclosed in double quotes)", "has no text in column 'text'"
    listed = (
        f"{', '.join(named[:3])} and 27 more ({reasons[0]}), {named[3]} and 1 more ({reasons[1]}), {named[4]} and 10"
    )
    words = f"Left out 43 rows of tables because of errors: {listed} more (is not JSON (Extra data))."
    assert noted(target, path=source) == [words]


def test_a_given_encoding_holds_for_all_files_and_corpus_sample_is_strict_utf8(source, target) -> None:
    write(source, {name: '{"text": "Ёж"}'.encode("cp1251") for name in ("a.txt", "b.md", "c.jsonl")})
    get(target, path=source, encoding="cp1251")
    assert [text.strip() for text in texts_in(target).values()] == ['{"text": "Ёж"}'] * 2 + ["Ёж"]
    with pytest.raises(BukvaError, match=r"a\.txt: byte 10 \(0xa8\) is not UTF-8\. Set download\.encoding, convert"):
        get(target, "sample", path=source, encoding="cp1251")
