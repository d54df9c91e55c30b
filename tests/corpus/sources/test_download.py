"""Five sources of a corpus give the same kind of collection; a mistake is one sentence that says where it is."""

import os
import zipfile
from collections.abc import Mapping
from dataclasses import asdict, replace
from hashlib import sha256 as digest_of
from pathlib import Path
from typing import get_args

import pytest
from corpus.serving import send, serving
from downloads import get, tar_gz, write
from hypothesis import given
from hypothesis import strategies as st
from works import texts_in

from bukva.base.errors import BukvaError
from bukva.config.data import Download
from bukva.config.messages import WAY_BACK
from bukva.corpus.collection import Document
from bukva.corpus.sources import download as sources
from bukva.corpus.sources.download import registry
from bukva.corpus.sources.git_tree import git_tree_id
from bukva.corpus.sources.info import read_info


@pytest.fixture
def fails(target: Path):
    """The function returned checks that a download raises these words and the way back, and changes nothing."""

    def check(words: str, **params: str | Path) -> None:
        write(target, {"former.txt": "former"})
        with pytest.raises(BukvaError, match=words) as error:
            get(target, **params)
        assert str(error.value).endswith(f"\n{WAY_BACK}")
        assert str(error.value).count("\n") == 1
        assert [path.name for path in target.parent.iterdir()] == ["raw"]
        assert [path.name for path in target.iterdir()] == ["former.txt"]

    return check


# ---- corpus local: a folder or a file


def test_folders_become_category_author_and_work_and_are_counted(source, target, monkeypatch, tmp_path) -> None:
    names = ["poems/Blok/Скифы.txt", "prose/Blok/Нос. Том 1.txt", "letter.txt", "Gogol/cycle/1.txt"]
    write(source, {name: name for name in names} | {"prose/Blok/info.csv": "name,year\nНос. Том 1,1901"})
    monkeypatch.setenv("DVC_ROOT", str(tmp_path))
    monkeypatch.chdir("/")
    summary = get(target, path=Path("books"))  # relative to the project
    assert list(texts_in(target).items()) == [
        (Document("-", "-", "letter"), "letter.txt"),
        (Document("Gogol", "cycle", "1"), "Gogol/cycle/1.txt"),
        (Document("poems", "Blok", "Скифы"), "poems/Blok/Скифы.txt"),
        (Document("prose", "Blok", "Нос. Том 1", "1901"), "prose/Blok/Нос. Том 1.txt"),
    ]
    n_chars, n_bytes = len("".join(names)), len("".join(names).encode())
    expected = {"works": 4, "authors": 2, "categories": 3, "chars": n_chars, "bytes": n_bytes, "works_without_year": 3}
    assert asdict(summary) == dict.fromkeys(asdict(summary), 0) | expected


def test_text_is_unchanged_except_for_byte_order_marks_and_those_inside_are_told(source, target) -> None:
    write(source, {"a.txt": "\ufeffодин\r\nдва\rтри\n\n \u2028", "b.txt": "\ufeff\ufeffx", "c.txt": "x\ufeff\ny\ufeff"})
    write(source, {"d.jsonl": '{"text": "one"}\n{"text": "\ufefftwo"}'})
    notes: list[str] = []
    assert get(target, path=source, note=notes.append).texts_with_marks_inside == 3
    assert list(texts_in(target).values()) == ["один\r\nдва\rтри\n\n \u2028", "x", "x\ny", "one", "two"]
    places = f"{source}/b.txt, {source}/c.txt, {source}/d.jsonl, row 2"
    assert notes == [f"download: 3 texts had byte order marks (U+FEFF) inside, which are removed: {places}."]


def test_hidden_files_and_files_of_other_types_are_skipped(source, target) -> None:
    write(source, {"a.txt": "x", ".b.txt": b"\xff", ".git/c.txt": b"\xff", "d.jpg": b"\xff", ".txt": b"\xff"})
    write(source, {"documents.csv": "x", "B.TXT": "y", "e.jpg": "", "Makefile": "", "info.csv": ""})
    notes: list[str] = []
    summary = get(target, path=source, note=notes.append)
    assert (summary.works, summary.files_of_other_types) == (2, 4)
    advice = "download.extensions names types to be read as plain text"
    types = "2 .jpg, 1 without extension, 1 .csv"
    assert notes == [f"download: 4 files of other types not read: {types}; {advice}."]
    assert [document.work for document in texts_in(target)] == ["B", "a"]


def test_a_place_without_texts_is_rejected_with_what_it_has_instead(source, fails) -> None:
    place = rf"^params\.yaml, download\.path: '{source}/"
    fails(rf"{place}none' does not exist; use a folder of texts, or one text", path=source / "none")
    write(source, {"a/info.csv": "name,year", ".b.txt": "x"})
    fails(rf"^{source}: contains no \.txt, \.md, .* or \.parquet file\.\n", path=source)
    write(source, {"a.py": "x", "b.py": "x"})
    fails(r"2 files of other types not read: 2 \.py; download\.extensions names types to be read", path=source)
    fails(rf"{place}a\.py' is not a \.txt, \.md, .* file, nor in download\.extensions;", path=source / "a.py")


def test_what_is_no_file_is_left_out_before_it_is_opened(source, target, fails) -> None:
    """Reading a pipe waits until somebody writes into it, and a device may never end."""
    write(source, {"a.txt": "x"})
    for name in ("info.csv", "pipe.txt", "pipe"):
        os.mkfifo(source / name)
    (source / "zero.txt").symlink_to("/dev/zero")
    fails(r"books/info\.csv: is a pipe, a socket or a device; remove it", path=source, strict=True)
    fails(r"pipe\.txt' is a pipe, a socket or a device; use a folder of texts", path=source / "pipe.txt")
    notes: list[str] = []
    get(target, path=source, note=notes.append)
    names = ", ".join(f"{source}/{name} (is a pipe, a socket or a device)" for name in ("info.csv", "pipe", "pipe.txt"))
    assert notes == [f"download: 4 files left out, cannot be read: {names} and 1 more."]


# ---- info.csv


def test_years_are_text_and_rows_without_a_work_are_counted(source, target) -> None:
    write(source, {f"c/A/{work}.txt": "x" for work in ("one", "a, b", "range", "empty", "none")} | {"c/B/b.txt": "x"})
    info = 'name,year\none,1863\n"a, b",1900\nrange,1863-1869\nempty,\nno such file,2\nb,1\n"open,4\nshort\n'
    write(source, {"c/A/info.csv": info, "c/D/info.csv": "name,year\nb,1\n"})
    summary = get(target, path=source)
    years = {document.work: document.year for document in texts_in(target)}
    expected = {"one": "1863", "a, b": "1900", "range": "1863-1869"}
    assert years == dict.fromkeys(("empty", "none", "b")) | expected
    assert summary.works_without_year == 3
    assert summary.info_rows_without_file == 3  # b is another author's, and D has no works at all
    assert summary.info_rows_unreadable == 2


@given(st.binary() | st.text("nameyr,\"'\r\n \0").map(str.encode))
def test_nothing_in_info_is_an_error(raw: bytes) -> None:
    read_info(b"name,year\n" + raw)


# ---- corpus url


@pytest.mark.parametrize(
    ("path", "work"),
    [
        ("/b/Vojna%20i%20mir.txt", "Vojna_i_mir"),
        ("/a/%2e%2e%2f%2e%2e%2f.txt", "txt"),
        ("/%00.txt", "txt"),
        ("/", "text"),
    ],
)
def test_a_text_at_an_address_is_one_work_with_a_valid_name(path, work, target) -> None:
    with serving(lambda request: send(request, b"x\r\n", {})) as address:
        get(target, "url", url=f"{address}{path}?raw=/1", sha256=digest_of(b"x\r\n").hexdigest())
    assert texts_in(target) == {Document("-", "-", work): "x\r\n"}


def test_an_archive_at_an_address_is_unpacked_without_its_top_folder(server, target, tmp_path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as file:
        for name in ("books/Blok/1.txt", "__MACOSX/books/Blok/._1.txt", ".DS_Store"):
            file.writestr(name, "x")
    for body, works in (
        ((tmp_path / "a.zip").read_bytes(), ["-/Blok/1"]),
        (tar_gz({"poems/Blok/1.txt": "1", "prose/Gogol/2.txt": "2"}), ["poems/Blok/1", "prose/Gogol/2"]),
        (tar_gz({"book.txt": "x"}), ["-/-/book"]),
    ):
        get(target, "url", url=server.has("/books", body), sha256=digest_of(body).hexdigest())
        assert [document.name for document in texts_in(target)] == works


def test_mistakes_at_an_address_are_reported(server, fails) -> None:
    fails("status 404", corpus="url", url=server.address + "/none", sha256="0" * 64)
    fails("SHA-256 is", corpus="url", url=server.has("/a", b"x"), sha256="0" * 64)
    for body, words in (
        (b"\xff\xffx", r"^a\.txt: byte 0 \(0xff\) is not UTF-8"),
        (tar_gz({"../x.txt": "x"}), r"^a\.txt, entry '\.\./x\.txt': its name leads outside the folder"),
        (tar_gz({"x/a/bad.txt": b"\xe0"}), r"^a\.txt/a/bad\.txt: byte 0 "),
        (tar_gz({}), r"^a\.txt: contains no \.txt, \.md, "),
    ):
        url = server.has("/a.txt", body)
        fails(words, corpus="url", url=url, sha256=digest_of(body).hexdigest(), strict=True, encoding="utf-8")


# ---- the registry


def test_the_registry_has_the_corpora_of_the_parameters_and_pins_their_content() -> None:
    known = set(get_args(Download.model_fields["corpus"].annotation))
    assert set(registry()) == known - {"sample", "local", "url", "huggingface"}
    for corpus in registry().values():
        assert corpus.format == ("archive" if corpus.trees else "text")
        assert {len(tree) for tree in corpus.trees.values()} <= {40}
        assert corpus.trees or len(corpus.sha256) == 64
        assert corpus.url.startswith("https://")
        assert Path(corpus.file).name == corpus.file


@pytest.fixture
def pinned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Make ruslit a small archive in a mirror: two pinned folders with a work in CP1251, and the given files."""
    works = {"poems/Blok/1.txt": "раз", "prose/Gogol/2.txt": "два".encode("cp1251")}
    write(tmp_path / "tree", works)
    trees = {name: git_tree_id(tmp_path / "tree" / name) for name in ("poems", "prose")}
    encodings = {"prose/Gogol/2.txt": "cp1251"}
    entry = replace(registry()["ruslit"], file="r.tar.gz", root="r-1", trees=trees, encodings=encodings)
    monkeypatch.setattr(sources, "registry", lambda: {"ruslit": entry})
    monkeypatch.setenv("BUKVA_MIRROR", str(tmp_path / "mirror"))

    def write_archive(files: Mapping[str, str | bytes]) -> None:
        packed = tar_gz({f"r-1/{name}": content for name, content in (works | dict(files)).items()})
        write(tmp_path / "mirror", {"r.tar.gz": packed})

    return write_archive


def test_only_the_pinned_folders_of_an_archive_are_read(pinned, target) -> None:
    pinned({"README.txt": "not pinned", "letters/x.txt": b"\xff"})
    get(target, "ruslit")
    assert texts_in(target) == {Document("poems", "Blok", "1"): "раз", Document("prose", "Gogol", "2"): "два"}


def test_an_archive_with_other_content_is_rejected(pinned, fails, tmp_path) -> None:
    words = r"^r\.tar\.gz, folder poems: its git tree is [0-9a-f]{40}, not [0-9a-f]{40}; use the archive"
    for change in ({"poems/Blok/1.txt": "раз\n"}, {"poems/new.txt": "x"}, {"poems/.hidden": ""}):
        pinned(change)
        fails(words, corpus="ruslit")
    write(tmp_path / "mirror", {"r.tar.gz": tar_gz({"r-1/poems/Blok/1.txt": "раз"})})
    fails("folder prose: its git tree is missing", corpus="ruslit")


def test_the_sample_has_its_works_and_characters(target) -> None:
    summary = get(target, "sample", path=Path(__file__).parents[3] / "data" / "sample")
    assert (summary.works, summary.chars) == (38, 344_243)
