"""Any folder of texts becomes a collection: mixed types and encodings, bad files among good ones, files of any size."""

import tracemalloc
from hashlib import sha256
from pathlib import Path

import pytest
from corpus.sources.formats.made import epub, jsonl, parquet
from downloads import get, tar_gz, write
from works import texts_in

from bukva.base.errors import BukvaError
from bukva.corpus.collection import Document, read_table

RUSSIAN = "Был тихий вечер, и солнце уже садилось за лесом. Старик сидел у окна.\n" * 7
GARBAGE = b"text\n" + bytes(range(128, 256)) * 50 + b"\0" * 1000


def noted(source: Path, target: Path, **params: object) -> list[str]:
    """The notes of a download."""
    notes: list[str] = []
    get(target, path=source, note=notes.append, **params)
    return [note.removeprefix("download: ").replace(str(source), "books") for note in notes]


def test_a_mixed_folder_is_read_type_by_type(source, target) -> None:
    write(
        source, {"en/Poe/raven.txt": "Nevermore.\n", "en/Poe/raven.md": "# Bells\n\n*Hear*", "p.HTML": "<p>раз<p>два"}
    )
    write(source, {"en/Poe/raven.c": "1", "en/Poe/info.csv": "name,year\nraven,1845\n"})
    epub(source / "book.epub", {"a.xhtml": "<p>глава</p>"})
    jsonl(source / "posts.jsonl", [{"text": "один"}, {"text": "два", "author": "А", "category": "c", "year": 1900}])
    parquet(source / "en" / "t.parquet", {"text": ["x", "y"], "title": ["Икс", None]})
    assert get(target, path=source, strict=True, extensions=[".c"]).works == 9
    assert texts_in(target) == {
        Document("-", "-", "book.epub"): "глава\n",
        Document("-", "-", "p.HTML"): "раз\nдва\n",
        Document("-", "-", "posts.jsonl#000000001"): "один",
        Document("-", "en", "t.parquet#000000001 Икс"): "x",
        Document("-", "en", "t.parquet#000000002"): "y",
        Document("c", "А", "posts.jsonl#000000002", "1900"): "два",
        Document("en", "Poe", "raven.md", "1845"): "Bells\nHear\n",
        Document("en", "Poe", "raven.c", "1845"): "1",
        Document("en", "Poe", "raven", "1845"): "Nevermore.\n",
    }


def test_one_file_of_any_type_is_a_corpus_here_and_at_an_address(source, target, server) -> None:
    book, table = epub(source / "a.epub", {"a.xhtml": "a"}), jsonl(source / "a.ndjson", [{"text": "a"}])
    page = write(source, {"a.html": "<p>a"}) / "a.html"
    for path, extensions, text in ((book, [], "a\n"), (table, [], "a"), (page, [".html"], "<p>a")):
        get(target, path=path, extensions=extensions)
        assert list(texts_in(target).values()) == [text]
    for name, body, expected in (
        ("/a.tgz", tar_gz({"x/a.md": "*a*", "x/b.jsonl": '{"text": "b"}'}), ["a\n", "b"]),
        ("/ebooks/2600.epub.images", book.read_bytes(), ["a\n"]),
    ):
        get(target, "url", url=server.has(name, body), sha256=sha256(body).hexdigest())
        assert list(texts_in(target).values()) == expected


# ---- files and rows without readable text


def test_bad_files_and_rows_are_left_out_counted_and_named(source, target) -> None:
    write(source, {"good.txt": "да", "empty.txt": " \n", "empty.html": "<p></p>", "bad.epub": b"PK"})
    write(source, {"bad.parquet": b"PAR1", "c.jpg": b"\xff", "locked/a.txt": "нет", "garbage.txt": GARBAGE})
    (source / "link.txt").symlink_to("nowhere")
    (source / "cycle").symlink_to(source)
    jsonl(source / "rows.jsonl", [{"text": "раз"}, "{", {"text": ""}, {"text": "два"}])
    notes: list[str] = []
    summary = get(target, path=source, note=notes.append)
    assert sorted(texts_in(target).values()) == ["да", "два", "нет", "раз"]
    counts = summary.files_without_text, summary.files_unreadable, summary.bad_rows, summary.files_of_other_types
    assert counts == (2, 5, 2, 1)
    assert [note.replace(str(source), "books") for note in notes] == [
        "download: 2 files left out, without text: books/empty.html, books/empty.txt.",
        "download: 5 files left out, cannot be read: books/cycle (this link leads back to a folder that contains it), "
        "books/bad.epub (damaged, or not an epub (File is not a zip file)), books/bad.parquet (damaged, or not Parquet "
        "(Parquet file size is 4 bytes, smaller than the minimum file footer (8 bytes))) and 2 more.",
        "download: 2 rows of tables left out: books/rows.jsonl, row 2 (is not JSON (Expecting property name enclosed "
        "in double quotes)), books/rows.jsonl, row 3 (has no text in column 'text').",
        "download: 1 file of other types not read: 1 .jpg; download.extensions names types to be read as plain text.",
    ]


@pytest.mark.parametrize("name", ["a.txt", "a.html", "a.jsonl"])
def test_a_file_with_nul_is_left_out_whatever_its_type(name, source, target) -> None:
    write(source, {name: '{"text": "\0"}\n', "b.txt": "да"})
    why = "is NUL, as in binary files and in UTF-16 without a byte order mark (utf-16-le or utf-16-be)"
    assert noted(source, target) == [f"1 file left out, cannot be read: books/{name} (byte 10 (0x00) {why})."]
    assert list(texts_in(target).values()) == ["да"]


def test_nothing_of_a_file_that_fails_late_is_kept(source, target) -> None:
    write(source, {"a.txt": b"x" * 3_000_017 + b"\xff", "b.txt": "да"})
    words = "1 file left out, cannot be read: books/a.txt (byte 3000017 (0xff) is not UTF-8)."
    assert noted(source, target, encoding="utf-8") == [words]
    assert list(texts_in(target).values()) == ["да"]


def test_without_any_readable_text_a_download_fails_and_says_why(source, target) -> None:
    write(source, {"a.txt": "", "b.jsonl": '{"content": "x"}'})
    words = (
        rf"^{source}: no file has readable text\. 1 file left out, without text: {source}/a\.txt\. "
        rf"1 row of a table left out: {source}/b\.jsonl, row 1 \(has no text in column 'text'\)"
    )
    with pytest.raises(BukvaError, match=words):
        get(target, path=source)
    assert not target.exists()


# ---- encodings


def test_encodings_are_detected_file_by_file_and_reported(source, target) -> None:
    write(source, {f"{name}.txt": RUSSIAN.encode(name) for name in ("utf-8", "cp1251", "koi8-r", "utf-16")})
    write(source, {"page.html": b"<meta charset=koi8-r>" + RUSSIAN.encode("koi8-r")})
    assert noted(source, target) == [
        "1 file read as cp1251, which was detected: books/cp1251.txt.",
        "2 files read as koi8-r, which was detected: books/koi8-r.txt, books/page.html.",
        "1 file read as utf-16, which was detected: books/utf-16.txt.",
    ]
    assert set(texts_in(target).values()) == {RUSSIAN, RUSSIAN.replace("\n", " ").strip() + "\n"}


def test_a_given_encoding_holds_for_all_files_and_corpus_sample_is_strict_utf8(source, target) -> None:
    write(source, {name: '{"text": "Ёж"}'.encode("cp1251") for name in ("a.txt", "b.md", "c.jsonl")})
    get(target, path=source, encoding="cp1251", strict=True)
    assert [text.strip() for text in texts_in(target).values()] == ['{"text": "Ёж"}'] * 2 + ["Ёж"]
    with pytest.raises(BukvaError, match=r"a\.txt: byte 10 \(0xa8\) is not UTF-8; convert the file"):
        get(target, "sample", path=source, strict=False, encoding="cp1251")


# ---- files larger than the memory that reading them may take


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["txt", "jsonl", "parquet"])
def test_a_file_of_any_size_stays_in_bounded_memory(kind, source, target, peak_memory) -> None:
    text, n_rows = "Слово за словом. " * 1009, 1013
    if kind == "parquet":
        parquet(source / "a.parquet", {"text": [f"{text}{n}" for n in range(n_rows)]}, row_group_size=n_rows)
    else:
        line = f'{{"text": "{text}"}}\n' if kind == "jsonl" else f"{text}\n"
        with (source / f"a.{kind}").open("w", encoding="utf-8") as file:
            file.writelines(line for _ in range(n_rows))
    tracemalloc.reset_peak()
    assert get(target, path=source).bytes > 30e6
    assert peak_memory() < 14e6
    assert len(read_table(target)) == (1 if kind == "txt" else n_rows)
