"""Any folder of texts becomes a collection: mixed types and encodings, bad files among good ones, files of any size."""

from pathlib import Path

import pytest
from corpus.sources.formats.made import epub, jsonl, parquet
from corpus.sources.test_download import get, tar_gz, write
from works import texts_in

from bukva.base.errors import BukvaError
from bukva.corpus.collection import Document, read_table

RUSSIAN = "Был тихий вечер, и солнце уже садилось за лесом. Старик сидел у окна.\n" * 7


@pytest.fixture
def source(tmp_path: Path) -> Path:
    (tmp_path / "books").mkdir()
    return tmp_path / "books"


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "data" / "raw"


def noted(target: Path, **params: object) -> list[str]:
    """The notes of a download."""
    notes: list[str] = []
    get(target, note=notes.append, **params)
    return [note.removeprefix("download: ") for note in notes]


def test_a_mixed_folder_is_read_type_by_type(source, target) -> None:
    write(
        source,
        {"en/Poe/raven.txt": "Nevermore.\n", "en/Poe/bells.md": "# Bells\n\n*Hear*", "page.HTML": "<p>раз<p>два"},
    )
    epub(source / "book.epub", {"a.xhtml": "<p>глава</p>"})
    jsonl(source / "posts.jsonl", [{"text": "один"}, {"text": "два", "author": "А", "category": "c", "year": 1900}])
    parquet(source / "en" / "t.parquet", {"text": ["x", "y"], "title": ["Икс", None]})
    assert get(target, path=source, strict=True).works == 8
    assert texts_in(target) == {
        Document("-", "-", "book.epub"): "глава\n",
        Document("-", "-", "page.HTML"): "раз\nдва\n",
        Document("-", "-", "posts.jsonl#000000001"): "один",
        Document("-", "en", "t.parquet#000000001 Икс"): "x",
        Document("-", "en", "t.parquet#000000002"): "y",
        Document("c", "А", "posts.jsonl#000000002", "1900"): "два",
        Document("en", "Poe", "bells.md"): "Bells\nHear\n",
        Document("en", "Poe", "raven"): "Nevermore.\n",
    }


def test_rows_with_authors_of_their_own_keep_the_path_that_tells_them_apart(source, target) -> None:
    for folder in ("a/b", "c/d"):
        (source / folder).mkdir(parents=True)
        jsonl(source / folder / "x.jsonl", [{"text": folder, "author": "А", "category": "К"}])
    get(target, path=source)
    assert [(key.category, key.author, key.work) for key in texts_in(target)] == [
        ("К", "А", "a/b/x.jsonl#000000001"),
        ("К", "А", "c/d/x.jsonl#000000001"),
    ]


def test_files_that_differ_in_their_type_only_are_different_works(source, target) -> None:
    write(source, {"a.txt": "1", "a.md": "2", "a.html": "3", "a.c": "4", "a.h": "5"})
    get(target, path=source, extensions=[".c", ".h"])
    assert {key.work: text for key, text in texts_in(target).items()} == {
        **{"a": "1", "a.md": "2\n", "a.html": "3\n"},
        **{"a.c": "4", "a.h": "5"},
    }


def test_info_gives_years_to_files_of_every_type(source, target) -> None:
    write(source, {"A/one.md": "x", "A/two.html": "y", "A/info.csv": "name,year\none,1\ntwo,2\nthree,3\n"})
    assert get(target, path=source).info_rows_without_file == 1
    assert [key.year for key in texts_in(target)] == ["1", "2"]


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda folder: write(folder, {"a.md": "*a*"}) / "a.md", "a\n"),
        (lambda folder: epub(folder / "a.epub", {"a.xhtml": "a"}), "a\n"),
        (lambda folder: jsonl(folder / "a.ndjson", [{"text": "a"}]), "a"),
        (lambda folder: parquet(folder / "a.parquet", {"text": ["a"]}), "a"),
        (lambda folder: write(folder, {"a.PY": "a"}) / "a.PY", "a"),
    ],
    ids=["md", "epub", "ndjson", "parquet", "py"],
)
def test_one_file_of_any_type_is_a_corpus(make, text, source, target) -> None:
    get(target, path=make(source), extensions=[".py"])
    assert list(texts_in(target).values()) == [text]


def test_the_source_of_a_page_is_text_if_its_extension_is_listed(source, target) -> None:
    get(target, path=write(source, {"a.html": "<p>x</p>"}), extensions=[".html"])
    assert list(texts_in(target).values()) == ["<p>x</p>"]


def test_an_archive_and_an_epub_at_an_address_are_read_type_by_type(server, target, tmp_path) -> None:
    from hashlib import sha256

    for name, body, expected in (
        ("/a.tgz", tar_gz({"x/a.md": "*a*", "x/b.jsonl": '{"text": "b"}'}), ["a\n", "b"]),
        ("/ebooks/2600.epub.images", epub(tmp_path / "a.epub", {"a.xhtml": "глава"}).read_bytes(), ["глава\n"]),
    ):
        get(target, "url", url=server.has(name, body), sha256=sha256(body).hexdigest())
        assert list(texts_in(target).values()) == expected


# ---- files and rows without readable text


@pytest.fixture
def spoiled(source) -> Path:
    """A folder with three good texts, and every kind of bad file and row."""
    write(
        source,
        {"good.txt": "да", "empty.txt": " \n", "empty.html": "<p></p>", "bad.epub": b"PK", "garbage.txt": GARBAGE},
    )
    write(source, {"bad.parquet": b"PAR1", "c.jpg": b"\xff", "locked/a.txt": "нет"})
    (source / "link.txt").symlink_to("nowhere")
    (source / "cycle").symlink_to(source)
    jsonl(source / "rows.jsonl", [{"text": "раз"}, "{", {"text": ""}, {"text": "два"}])
    return source


@pytest.mark.parametrize("name", ["a.txt", "a.md", "a.html", "a.jsonl"])
def test_a_file_with_nul_is_left_out_whatever_its_type(name, source, target) -> None:
    write(source, {name: '{"text": "\0"}\n', "b.txt": "да"})
    notes = noted(target, path=source)
    why = "is NUL, as in binary files and in UTF-16 without a byte order mark (utf-16-le or utf-16-be)"
    assert notes == [f"1 file left out, cannot be read: {source}/{name} (byte 10 (0x00) {why})."]
    assert list(texts_in(target).values()) == ["да"]
    words = rf"{name}: byte 10 \(0x00\) is NUL, .*; convert the file, .*, or set download.encoding\."
    with pytest.raises(BukvaError, match=words):
        get(target, path=source, strict=True, encoding="utf-8")


GARBAGE = b"text\n" + bytes(range(128, 256)) * 50 + b"\0" * 1000


def test_bad_files_and_rows_are_left_out_counted_and_named(spoiled, target) -> None:
    notes: list[str] = []
    summary = get(target, path=spoiled, note=notes.append)
    assert sorted(texts_in(target).values()) == ["да", "два", "нет", "раз"]
    counts = summary.files_without_text, summary.files_unreadable, summary.bad_rows, summary.files_of_other_types
    assert counts == (2, 5, 2, 1)
    assert [note.replace(str(spoiled), "books") for note in notes] == [
        "download: 2 files left out, without text: books/empty.html, books/empty.txt.",
        "download: 5 files left out, cannot be read: books/cycle (this link leads back to a folder that contains it), "
        "books/bad.epub (damaged, or not an epub (File is not a zip file)), books/bad.parquet (damaged, or not Parquet "
        "(Parquet file size is 4 bytes, smaller than the minimum file footer (8 bytes))) and 2 more.",
        "download: 2 rows of tables left out: books/rows.jsonl, row 2 (is not JSON (Expecting property name enclosed "
        "in double quotes)), books/rows.jsonl, row 3 (has no text in column 'text').",
        "download: 1 file of other types not read: 1 .jpg; download.extensions names types to be read as plain text.",
    ]


def test_nothing_of_a_file_that_fails_late_is_kept(source, target) -> None:
    write(source, {"a.txt": b"x" * 3_000_017 + b"\xff", "b.txt": "да"})
    notes = noted(target, path=source, encoding="utf-8")
    assert list(texts_in(target).values()) == ["да"]
    assert notes == [f"1 file left out, cannot be read: {source}/a.txt (byte 3000017 (0xff) is not UTF-8)."]


def test_a_thousand_bad_files_are_one_line(source, target) -> None:
    write(source, {f"{number:04}.txt": "" for number in range(997)} | {"good.txt": "x"})
    names = ", ".join(f"{source}/{number:04}.txt" for number in range(3))
    assert noted(target, path=source) == [f"997 files left out, without text: {names} and 994 more."]


@pytest.mark.parametrize("strict", [False, True])
def test_without_any_readable_text_a_download_fails_and_says_why(strict, source, target) -> None:
    write(source, {"a.txt": "", "b.jsonl": '{"content": "x"}'})
    words = (
        rf"^{source}/a\.txt: contains no text; fill the file or remove it"
        if strict
        else rf"^{source}: no file has readable text\. 1 file left out, without text: {source}/a\.txt\. "
        rf"1 row of a table left out: {source}/b\.jsonl, row 1 \(has no text in column 'text'\)"
    )
    with pytest.raises(BukvaError, match=words):
        get(target, path=source, strict=strict)
    assert not target.exists()


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"a.html": "<p>"}, "a.html: contains no text; fill"),
        ({"a.epub": b"x"}, "a.epub: damaged, or not an epub"),
        ({"a.parquet": b"x"}, "a.parquet: damaged, or not Parquet"),
        ({"a.jsonl": "{"}, "a.jsonl, row 1: is not JSON"),
        ({"a.txt": GARBAGE}, r"a.txt: byte 5 \(0x80\) is not UTF-8, and no other encoding fits the whole file; set"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_in_a_strict_download_the_first_bad_file_or_row_is_an_error(files, words, source, target) -> None:
    write(source, {"0.txt": "good", **files})
    with pytest.raises(BukvaError, match=f"^{source}/{words}"):
        get(target, path=source, strict=True)
    assert not target.exists()


def test_corpus_sample_is_strict_and_utf8_whatever_the_parameters_say(source, target) -> None:
    write(source, {"a.txt": "x", "b.txt": RUSSIAN.encode("cp1251")})
    with pytest.raises(BukvaError, match=r"b\.txt: byte 0 \(0xc1\) is not UTF-8; convert the file"):
        get(target, "sample", path=source, strict=False, encoding="auto")


# ---- encodings


def test_encodings_are_detected_file_by_file_and_reported(source, target) -> None:
    write(source, {f"{name}.txt": RUSSIAN.encode(name) for name in ("utf-8", "cp1251", "koi8-r", "utf-16")})
    write(source, {"page.html": b"<meta charset=koi8-r>" + RUSSIAN.encode("koi8-r")})
    notes: list[str] = []
    summary = get(target, path=source, note=notes.append)
    assert set(texts_in(target).values()) == {RUSSIAN, RUSSIAN.replace("\n", " ").strip() + "\n"}
    assert summary.files_in_detected_encoding == 4
    assert [note.replace(str(source), "books") for note in notes] == [
        "download: 1 file read as cp1251, which was detected: books/cp1251.txt.",
        "download: 2 files read as koi8-r, which was detected: books/koi8-r.txt, books/page.html.",
        "download: 1 file read as utf-16, which was detected: books/utf-16.txt.",
    ]


def test_a_given_encoding_holds_for_all_files(source, target) -> None:
    write(source, {"a.txt": "Ёж".encode("cp1251"), "b.md": "Ёж".encode("cp1251")})
    jsonl(source / "c.jsonl", [])
    write(source, {"c.jsonl": '{"text": "Ёж"}'.encode("cp1251")})
    get(target, path=source, encoding="cp1251", strict=True)
    assert [text.strip() for text in texts_in(target).values()] == ["Ёж"] * 3


# ---- files larger than the memory that reading them may take


def test_a_text_of_any_size_stays_in_bounded_memory(source, target, peak_memory) -> None:
    with (source / "a.txt").open("wb") as file:
        for _ in range(31):
            file.write("Слово за словом.\n".encode() * 2**15)
    assert get(target, path=source).bytes == 31 * 30 * 2**15
    assert peak_memory() < 12e6


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_a_table_of_any_size_stays_in_bounded_memory(kind, source, target, peak_memory) -> None:
    text, n_rows = "Слово за словом.\n" * 1009, 1013
    if kind == "jsonl":
        with (source / "a.jsonl").open("w", encoding="utf-8") as file:
            file.writelines(f'{{"text": "{text[:-1].replace(chr(10), " ")}"}}\n' for _ in range(n_rows))
    else:
        parquet(source / "a.parquet", {"text": [f"{text}{n}" for n in range(n_rows)]}, row_group_size=n_rows)
    import tracemalloc

    tracemalloc.reset_peak()
    assert get(target, path=source).bytes > 30e6
    assert peak_memory() < 14e6
    assert len(read_table(target)) == n_rows
