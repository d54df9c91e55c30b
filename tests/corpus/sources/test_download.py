"""Five sources of a corpus give the same kind of collection; a mistake is one sentence that says where it is."""

import io
import os
import tarfile
import unicodedata
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import asdict
from hashlib import sha256 as digest_of
from pathlib import Path
from typing import get_args

import pytest
from downloads import download_params
from hypothesis import given
from hypothesis import strategies as st
from works import texts_in

from bukva.base.errors import BukvaError
from bukva.base.files import resolve
from bukva.config.data import Download
from bukva.config.messages import WAY_BACK
from bukva.corpus.collection import Document, documents, read_table
from bukva.corpus.sources import download as sources
from bukva.corpus.sources.download import DownloadSummary, Source, download, registry
from bukva.corpus.sources.git_tree import git_tree_id
from bukva.corpus.sources.info import read_info

# a folder with the corpora of the registry, because tests have no network
MIRROR = resolve(os.environ.get("BUKVA_MIRROR", "no mirror"))


def silent(*_: object) -> None:
    pass


def get(
    target: Path, corpus: str = "local", note: Callable[[str], object] = pytest.fail, **changes: object
) -> DownloadSummary:
    """Download into `target`; a note fails the test unless it takes notes."""
    return download(download_params(corpus=corpus, **changes), target, silent, note)


def write(folder: Path, files: Mapping[str, str | bytes]) -> Path:
    """Write files into a folder; text is encoded as UTF-8."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


def tar_gz(files: Mapping[str, str | bytes]) -> bytes:
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w:gz") as tar:
        for name, content in files.items():
            content = content if isinstance(content, bytes) else content.encode()
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return raw.getvalue()


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return tmp_path / "books"


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "data" / "raw"


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


def test_folders_become_category_author_and_work(source, target) -> None:
    names = ["poems/Blok/Скифы.txt", "Gogol/Нос.txt", "letter.txt", "poems/Blok/cycle/1.txt"]
    get(target, path=write(source, {name: name for name in names}))
    assert texts_in(target) == {
        Document("-", "-", "letter"): "letter.txt",
        Document("-", "Gogol", "Нос"): "Gogol/Нос.txt",
        Document("poems", "Blok", "cycle/1"): "poems/Blok/cycle/1.txt",
        Document("poems", "Blok", "Скифы"): "poems/Blok/Скифы.txt",
    }


def test_documents_are_sorted_by_category_author_and_work(source, target) -> None:
    names = ["b/a/1", "a/b/1", "a/Я/1", "a/B/2", "a/B/10", "a-/x/1"]
    get(target, path=write(source, {f"{name}.txt": "x" for name in names}))
    found = [(d.category, d.author, d.work) for d in documents(read_table(target))]
    assert found == sorted(found)
    assert len(found) == len(names)


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
    types = "2 .jpg, 1 without extension, 1 .csv"
    advice = "download.extensions names types to be read as plain text"
    assert notes == [f"download: 4 files of other types not read: {types}; {advice}."]
    assert [document.work for document in texts_in(target)] == ["B", "a"]


def test_one_file_is_one_work(source, target) -> None:
    write(source, {"Война и мир. Том 1.txt": "x", "other.txt": "y"})
    get(target, path=source / "Война и мир. Том 1.txt")
    assert texts_in(target) == {Document("-", "-", "Война и мир. Том 1"): "x"}


def test_decomposed_names_of_macos_become_composed(source, target) -> None:
    apart = unicodedata.normalize("NFD", "Чехов/Чайка й.txt")
    info = unicodedata.normalize("NFD", "name,year\nЧайка й,1896\n")
    get(target, path=write(source, {apart: "x", "Чехов/info.csv": "name,year\n"}))
    assert list(texts_in(target)) == [Document("-", "Чехов", "Чайка й")]
    write(source, {str(Path(apart).parent / "info.csv"): info})
    get(target, path=source)
    assert list(texts_in(target)) == [Document("-", "Чехов", "Чайка й", "1896")]


def test_links_to_folders_and_files_are_followed(source, target, tmp_path) -> None:
    write(tmp_path / "elsewhere", {"one.txt": "1", "more/two.txt": "2"})
    source.mkdir()
    (source / "Blok").symlink_to(tmp_path / "elsewhere" / "more")
    (source / "one.txt").symlink_to(tmp_path / "elsewhere" / "one.txt")
    get(target, path=source)
    assert texts_in(target) == {Document("-", "-", "one"): "1", Document("-", "Blok", "two"): "2"}


def test_a_relative_path_is_found_from_the_project(source, target, monkeypatch, tmp_path) -> None:
    write(source, {"a.txt": "x"})
    monkeypatch.setenv("DVC_ROOT", str(tmp_path))
    monkeypatch.chdir("/")
    assert get(target, path=Path("books")).works == 1


def test_the_summary_counts(source, target) -> None:
    write(source, {"poems/Blok/1.txt": "ёж", "prose/Blok/2.txt": "x", "3.txt": "y", "Gogol/4.txt": "z"})
    write(source, {"prose/Blok/info.csv": "name,year\n2,1901"})
    assert get(target, path=source) == DownloadSummary(
        works=4,
        authors=2,
        categories=2,
        chars=5,
        bytes=7,
        works_without_year=3,
        info_rows_without_file=0,
        info_rows_unreadable=0,
        files_without_text=0,
        files_unreadable=0,
        files_of_other_types=0,
        files_in_detected_encoding=0,
        texts_with_marks_inside=0,
        bad_rows=0,
    )
    assert all(type(count) is int for count in asdict(get(target, path=source)).values())


def test_a_second_download_replaces_the_first(source, target) -> None:
    get(target, path=write(source, {"a.txt": "x", "b.txt": "y"}))
    (source / "a.txt").unlink()
    get(target, path=source)
    assert list(texts_in(target).values()) == ["y"]


# ---- mistakes in it


def test_a_missing_path_is_reported(source, fails) -> None:
    fails(rf"^params\.yaml, download\.path: '{source}' does not exist; use a folder of texts, or one text", path=source)


def test_a_file_of_another_type_is_rejected_with_the_types_that_are_read(source, fails) -> None:
    words = (
        r"book\.pdf' is not a \.txt, \.md, .*, \.ndjson or \.parquet file, nor in download\.extensions; use a folder"
    )
    fails(words, path=write(source, {"book.pdf": "x"}) / "book.pdf")


def test_a_folder_without_texts_is_rejected_with_what_it_has_instead(source, fails) -> None:
    write(source, {"a/info.csv": "name,year", ".b.txt": "x"})
    fails(rf"^{source}: contains no \.txt, \.md, .* or \.parquet file\.\n", path=source)
    write(source, {"a.py": "x", "b.py": "x"})
    fails(r"2 files of other types not read: 2 \.py; download\.extensions names types to be read", path=source)


def test_a_text_that_is_not_utf8_is_reported_with_the_byte(source, fails) -> None:
    write(source, {"a/b/good.txt": "x", "a/b/c/bad.txt": b"\xef\xbb\xbf" + "ёж".encode() + b"\xe0abc"})
    fails(rf"^{source}/a/b/c/bad\.txt: byte 7 \(0xe0\) is not UTF-8; convert", path=source, strict=True)


@pytest.mark.parametrize("content", ["", " \r\n\t", "\ufeff"])
def test_an_empty_text_is_rejected(content, source, fails) -> None:
    fails(r"books/a\.txt: contains no text; fill", path=write(source, {"a.txt": content}), strict=True)


def test_a_text_that_cannot_be_read_is_reported(source, fails) -> None:
    source.mkdir()
    (source / "a.txt").symlink_to("nowhere")
    fails(r"books/a\.txt: cannot be read \(No such file", path=source, strict=True)


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


def test_a_cycle_of_links_is_rejected(source, fails) -> None:
    write(source, {"a/x.txt": "x", "b/y.txt": "y"})
    (source / "a" / "link").symlink_to(source / "b")
    (source / "b" / "link").symlink_to(source / "a")
    fails("books/a/link/link: this link leads back", path=source, strict=True)


def test_two_works_with_one_name_are_rejected(source, fails) -> None:
    write(source, {"Blok/a.txt": "x", "-/Blok/a.txt": "y"})
    fails("-/Blok/a: two works have this name", path=source)


def test_a_file_name_that_is_not_utf8_is_rejected_and_shown_without_its_bytes(source, target, fails) -> None:
    source.mkdir()
    try:
        Path(os.fsdecode(os.fsencode(source) + b"/\xe0.txt")).write_text("x")
    except OSError:
        pytest.skip("this file system accepts UTF-8 names only")
    fails(r"books/\\udce0\.txt: this file name is not UTF-8", path=source, strict=True)
    Path(os.fsdecode(os.fsencode(source) + b"/a.\xe0")).write_text("x")
    notes: list[str] = []
    get(target, path=write(source, {"b.txt": "y"}), note=notes.append)
    left_out, others = notes
    assert left_out.endswith(r"books/\udce0.txt (this file name is not UTF-8).")
    assert r"not read: 1 .\udce0; download.extensions" in others


# ---- info.csv


def test_years_are_text(source, target) -> None:
    write(source, {f"c/A/{work}.txt": "x" for work in ("one", "a, b", "range", "empty", "none")})
    write(source, {"c/A/info.csv": 'name,year\none,1863\n"a, b",1900\nrange,1863-1869\nempty,\n'})
    summary = get(target, path=source)
    years = {document.work: document.year for document in texts_in(target)}
    assert years == {"one": "1863", "a, b": "1900", "range": "1863-1869", "empty": None, "none": None}
    assert summary.works_without_year == 2


def test_rows_of_info_without_a_work_are_counted(source, target) -> None:
    write(source, {"c/A/a.txt": "x", "c/B/b.txt": "x"})
    info = 'name,year\nb,1\nno such file,2\nЗдесь, запятая,1848\n"open,4\nshort\n\na,5\n'
    write(source, {"c/A/info.csv": info, "c/D/info.csv": "name,year\nb,1\n"})
    summary = get(target, path=source)
    assert {document.work: document.year for document in texts_in(target)} == {"a": "5", "b": None}
    assert summary.info_rows_without_file == 3  # b is another author's, and D has no works at all
    assert summary.info_rows_unreadable == 3


@pytest.mark.parametrize(
    ("raw", "years", "unreadable"),
    [
        (b"", {}, 0),
        (b"\n\n", {}, 0),
        (b"name,year", {}, 0),
        (b"\xef\xbb\xbfname,year\r\na,1\r\n", {"a": "1"}, 0),
        (b"year, name\n1, a \n", {"a": "1"}, 0),
        (b"name,year\na,\n", {"a": None}, 0),
        (b"name,year,pages\na,1,2\nb,1\n", {"a": "1"}, 1),
        (b"title,year\na,1\n", {}, 2),
        (b"name,year\n" + b"a" * 200_000 + b",1\nb,2\n", {"b": "2"}, 1),
        ("name,year\nЁж,1\nb,2\n".encode("cp1251"), {"\ufffd\ufffd": "1", "b": "2"}, 0),
    ],
)
def test_the_readable_rows_of_info_are_read(raw, years, unreadable) -> None:
    assert read_info(raw) == (years, unreadable)


@given(st.binary() | st.text("nameyr,\"'\r\n \0").map(str.encode))
def test_nothing_in_info_is_an_error(raw: bytes) -> None:
    read_info(b"name,year\n" + raw)


# ---- corpus url


def test_a_text_at_an_address_is_one_work(server, target) -> None:
    url = server.has("/books/Vojna%20i%20mir.txt", b"x\r\n")
    get(target, "url", url=url + "?raw=1", sha256=digest_of(b"x\r\n").hexdigest())
    assert texts_in(target) == {Document("-", "-", "Vojna_i_mir"): "x\r\n"}


@pytest.mark.parametrize(
    ("path", "work"),
    [
        ("/", "text"),
        ("/..", "text"),
        ("/a/%2e%2e%2f%2e%2e%2f.txt", "txt"),
        ("/%00.txt", "txt"),
        ("/%D0%81%D0%B6.txt", "Ёж"),
        ("/" + "a" * 300, "a" * 80),
    ],
)
def test_the_name_of_a_work_from_an_address_is_a_valid_file_name(path, work) -> None:
    assert Path(sources._file_name(f"http://host{path}?q=/x")).stem == work


@pytest.mark.parametrize("top", ["", "books-main/"])
def test_an_archive_at_an_address_is_unpacked_without_its_top_folder(top, server, target) -> None:
    body = tar_gz({f"{top}poems/Blok/1.txt": "1", f"{top}prose/Gogol/2.txt": "2"})
    get(target, "url", url=server.has("/books", body), sha256=digest_of(body).hexdigest())
    assert texts_in(target) == {Document("poems", "Blok", "1"): "1", Document("prose", "Gogol", "2"): "2"}


def test_an_archive_of_one_file_is_one_work(server, target) -> None:
    body = tar_gz({"book.txt": "x"})
    get(target, "url", url=server.has("/a.tgz", body), sha256=digest_of(body).hexdigest())
    assert texts_in(target) == {Document("-", "-", "book"): "x"}


def test_the_extra_entries_of_macos_archives_are_skipped(server, target, tmp_path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as file:
        for name in ("books/Blok/1.txt", "__MACOSX/books/Blok/._1.txt", ".DS_Store"):
            file.writestr(name, "x")
    body = (tmp_path / "a.zip").read_bytes()
    get(target, "url", url=server.has("/a.zip", body), sha256=digest_of(body).hexdigest())
    assert list(texts_in(target)) == [Document("-", "Blok", "1")]


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


def test_the_registry_has_the_corpora_of_the_parameters() -> None:
    known = set(get_args(Download.model_fields["corpus"].annotation))
    assert set(registry()) == known - {"sample", "local", "url", "huggingface"}


def test_the_content_of_every_registered_corpus_is_pinned() -> None:
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
    entry = Source(
        title="",
        page="",
        licence="",
        url="https://nowhere.invalid/r.tar.gz",
        file="r.tar.gz",
        format="archive",
        root="r-1",
        trees={name: git_tree_id(tmp_path / "tree" / name) for name in ("poems", "prose")},
        encodings={"prose/Gogol/2.txt": "cp1251"},
    )
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


def test_an_archive_with_other_content_is_rejected(pinned, fails) -> None:
    for change in ({"poems/Blok/1.txt": "раз\n"}, {"poems/new.txt": "x"}, {"poems/.hidden": ""}):
        pinned(change)
        fails(
            r"^r\.tar\.gz, folder poems: its git tree is [0-9a-f]{40}, not [0-9a-f]{40}; use the archive",
            corpus="ruslit",
        )


def test_an_archive_without_a_pinned_folder_is_rejected(pinned, fails, tmp_path) -> None:
    pinned({})
    write(tmp_path / "mirror", {"r.tar.gz": tar_gz({"r-1/poems/Blok/1.txt": "раз"})})
    fails("folder prose: its git tree is missing", corpus="ruslit")


def test_a_web_page_instead_of_an_archive_is_rejected(pinned, fails, tmp_path) -> None:
    pinned({})
    write(tmp_path / "mirror", {"r.tar.gz": "<html>Please log in</html>"})
    fails(r"^r\.tar\.gz: damaged, or not an archive", corpus="ruslit")


def test_a_registered_text_is_one_work(target, tmp_path, monkeypatch) -> None:
    digest = digest_of(b"x").hexdigest()
    entry = Source("", "", "", "https://nowhere.invalid/input.txt", "tiny.txt", "text", digest)
    monkeypatch.setattr(sources, "registry", lambda: {"tinyshakespeare": entry})
    monkeypatch.setenv("BUKVA_MIRROR", str(write(tmp_path / "mirror", {"tiny.txt": "x", "other.txt": "y"})))
    get(target, "tinyshakespeare")
    assert texts_in(target) == {Document("-", "-", "tiny"): "x"}


# ---- the corpora themselves


def test_the_sample_has_its_works_and_characters(target) -> None:
    sample = Path(__file__).parents[3] / "data" / "sample"
    summary = get(target, "sample", path=sample)
    assert (summary.works, summary.chars) == (38, 344_243)


def requires(corpus: str) -> pytest.MarkDecorator:
    file = registry()[corpus].file
    return pytest.mark.skipif(not (MIRROR / file).is_file(), reason=f"BUKVA_MIRROR has no {file}")


@requires("tinyshakespeare")
def test_tinyshakespeare_has_its_characters(target, monkeypatch) -> None:
    monkeypatch.setenv("BUKVA_MIRROR", str(MIRROR))
    assert get(target, "tinyshakespeare").chars == 1_115_394
    assert list(texts_in(target)) == [Document("-", "-", "tinyshakespeare")]


@requires("ruslit")
def test_ruslit_has_its_works_and_characters(target, monkeypatch) -> None:
    monkeypatch.setenv("BUKVA_MIRROR", str(MIRROR))
    assert get(target, "ruslit") == DownloadSummary(
        works=373,
        authors=12,
        categories=3,
        chars=39_323_740,
        bytes=69_894_115,
        works_without_year=29,
        info_rows_without_file=3,
        info_rows_unreadable=1,
        files_without_text=0,
        files_unreadable=0,
        files_of_other_types=0,
        files_in_detected_encoding=0,
        texts_with_marks_inside=0,
        bad_rows=0,
    )
