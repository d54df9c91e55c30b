"""Unusual texts pass download, clean, tokenize and split unchanged; files without text and a full disk are reported."""

import hashlib
import subprocess
import sys
import tracemalloc
import unicodedata
import zipfile
from pathlib import Path

import numpy as np
import pytest
from downloads import download_params
from works import split

from bukva.base.errors import BukvaError
from bukva.config.data import Tokenize
from bukva.corpus.cleaning.clean import clean_collection
from bukva.corpus.cleaning.rule_sets import Chosen, rule_set
from bukva.corpus.sources.download import download
from bukva.corpus.splits.folder import load_splits, read_shares, save_splits
from bukva.encoding.works import tokenize
from bukva.tokenizers import load_tokenizer

HERE = Path(__file__).parent
CHAR = Tokenize(kind="char", vocabulary="all", unknown="error", vocab_size=257)
SPLIT = split(0.5, 0.25, 0.25, "contiguous")
EMPTY = [b"", b" ", b"  \n \r\n\t\n", b"\xef\xbb\xbf", b"\xef\xbb\xbf \n", "\u00a0\u3000\n".encode()]


def download_books(root: Path) -> None:
    download(download_params(path=root / "books", strict=True), root / "raw", lambda *_: None, pytest.fail)


def save_split(root: Path) -> None:
    ids = np.load(root / "tokens" / "ids.npy", mmap_mode="r")
    save_splits(root / "split", ids, read_shares(root / "tokens"))


# the work of each stage in a folder with books, and its output
STAGES = {
    "download": (download_books, "raw"),
    "clean": (lambda root: clean_collection(root / "raw", root / "clean", Chosen(rule_set("notes"), "")), "clean"),
    "tokenize": (lambda root: tokenize(root / "clean", root / "tokens", CHAR, SPLIT), "tokens"),
    "split": (save_split, "split"),
}


def run_stages(tmp_path: Path, rules: str, *files: bytes) -> str:
    """The text of all splits of these files after all stages, one split after the other."""
    (tmp_path / "books").mkdir()
    for name, content in zip("abcdef", files, strict=False):
        (tmp_path / "books" / f"{name}.txt").write_bytes(content)
    download_books(tmp_path)
    clean_collection(tmp_path / "raw", tmp_path / "clean", Chosen(rule_set(rules), ""))
    tokenizer = tokenize(tmp_path / "clean", tmp_path / "tokens", CHAR, SPLIT).tokenizer
    save_split(tmp_path)
    text = "".join(tokenizer.decode(ids) for ids in load_splits(tmp_path / "split").values())
    assert load_tokenizer(tmp_path / "tokens").decode(np.load(tmp_path / "tokens" / "ids.npy")) == text
    return text


@pytest.mark.parametrize("rules", ["notes", "none"])
@pytest.mark.parametrize(
    "text",
    [
        "Раз.\r\nДва.\r\n",
        "Раз.\rДва.\r",
        "Раз.\nДва.\r\n",
        "Раз.\rДва.\n",
        "\ufeffРаз.\nДва.\n",
        "\ufeffРаз.\r\nДва.\r",
    ],
    ids=ascii,
)
def test_line_ends_and_a_byte_order_mark_do_not_matter(text, rules, tmp_path) -> None:
    assert run_stages(tmp_path, rules, text.encode()) == "Раз.\nДва.\n"


@pytest.mark.parametrize(
    ("text", "notes", "none"),
    [
        ("\2", "\2\n", "\2"),
        ("ж\2ж\2\n\2\n", "ж\2ж\2\n\2\n", "ж\2ж\2\n\2\n"),
        ("жжж", "жжж\n", "жжж"),  # an alphabet of one
        ("ж", "ж\n", "ж"),
        ("ж\r\r\n\rж", "ж\nж\n", "ж\n\n\nж"),
        ("ж\u2028\u0085ж\v\f", "ж\u2028\u0085ж\v\f\n", "ж\u2028\u0085ж\v\f"),  # not line ends here
        ("и\u0306😀\U0010ffff", "и\u0306😀\U0010ffff\n", "и\u0306😀\U0010ffff"),
    ],
    ids=ascii,
)
def test_unusual_texts_are_unchanged(text, notes, none, tmp_path) -> None:
    for rules, expected in (("notes", notes), ("none", none)):
        (tmp_path / rules).mkdir()
        assert run_stages(tmp_path / rules, rules, text.encode()) == expected


@pytest.mark.parametrize("content", EMPTY, ids=ascii)
def test_a_work_without_text_is_rejected(content, tmp_path) -> None:
    with pytest.raises(BukvaError, match=r"books/b\.txt: contains no text; fill the file or remove it"):
        run_stages(tmp_path, "none", "Раз.".encode(), content)
    assert not (tmp_path / "raw").exists()


def test_a_work_that_cleaning_empties_does_not_disturb_the_others(tmp_path) -> None:
    assert run_stages(tmp_path, "notes", "Раз.".encode(), b"To be, or not to be", "Два.".encode()) == "Раз.\nДва.\n"


def test_two_names_that_differ_in_unicode_form_only_are_rejected(tmp_path) -> None:
    folder = tmp_path / "books" / "Чехов"
    folder.mkdir(parents=True)
    for form in ("NFC", "NFD"):
        (folder / unicodedata.normalize(form, "Чайка й.txt")).write_text(form)
    if len(list(folder.iterdir())) == 1:
        pytest.skip("this file system treats them as one name")
    with pytest.raises(BukvaError, match=r"-/Чехов/Чайка й: two works have this name"):
        download(download_params(path=tmp_path / "books"), tmp_path / "raw", lambda *_: None, pytest.fail)
    assert not (tmp_path / "raw").exists()


@pytest.mark.slow
def test_a_line_of_100_megabytes_stays_in_bounded_memory(tmp_path, peak_memory) -> None:
    words = 100_000_000 // 30
    (tmp_path / "books").mkdir()
    (tmp_path / "books" / "a.txt").write_bytes("Слово за словом, ".encode() * words)
    peaks = []
    for stage, _ in STAGES.values():
        tracemalloc.reset_peak()
        stage(tmp_path)
        peaks.append(peak_memory() / 1e6)
    assert np.load(tmp_path / "tokens" / "ids.npy", mmap_mode="r").shape == (words * 17 + 1,)  # and a line feed
    for peak, megabytes in zip(peaks, (500, 1400, 500, 50), strict=True):
        assert peak < megabytes, peaks


# ---- a full disk: a process that may write only so many bytes into a file

FULL = """
import resource, sys
from pathlib import Path
import typer
from bukva.stage import cli
from test_stages import STAGES

app = typer.Typer(**cli.STYLE)

@app.command()
def main(root: Path, stage: str):
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
    STAGES[stage][0](root)

cli.call(app)
"""


def run(program: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", program, *map(str, arguments)]
    path = {"PYTHONPATH": f"{HERE.parents[1] / 'src'}:{HERE.parent}:{HERE}"}
    return subprocess.run(command, env=path, capture_output=True, text=True)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder where every stage has run, with new books."""
    run_stages(tmp_path, "notes", "Прежний.".encode())
    (tmp_path / "books" / "a.txt").write_text("Новый, длинный.\n" * 3000)
    (tmp_path / "books" / "b.txt").write_text("Ещё один.\n" * 3000)
    return tmp_path


@pytest.mark.parametrize("stage", STAGES)
def test_a_full_disk_is_reported_keeps_the_former_output_and_allows_a_second_run(stage, root) -> None:
    names = list(STAGES)
    for before in names[: names.index(stage)]:
        STAGES[before][0](root)
    former = contents(root)
    full = run(FULL, root, stage)
    action, output = STAGES[stage]
    assert (full.returncode, full.stdout) == (1, "")
    assert full.stderr.startswith(f"{root / output}: File too large; existing files are intact: free some space")
    assert full.stderr.count("\n") == 1
    assert contents(root) == former
    assert sorted(path.name for path in root.iterdir()) == ["books", "clean", "raw", "split", "tokens"]
    action(root)
    assert contents(root) != former


FETCH = """
import resource, sys
from pathlib import Path
import typer
from bukva.stage import cli
from bukva.corpus.sources.download import download
from downloads import download_params

app = typer.Typer(**cli.STYLE)

@app.command()
def main(raw: Path, url: str, sha256: str, size: int):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
    download(download_params(corpus="url", url=url, sha256=sha256), raw, lambda *_: None, print)

cli.call(app)
"""


@pytest.mark.parametrize("packed", [False, True], ids=["text", "archive"])
def test_a_disk_that_fills_during_a_download_is_reported_with_the_name_of_the_output(packed, server, tmp_path) -> None:
    text = b"x" * 500_000
    raw = tmp_path / "raw"
    raw.mkdir()
    (raw / "former.txt").write_text("former")
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("a.txt", text)
    body = (tmp_path / "a.zip").read_bytes() if packed else text
    url = server.has("/a", body)
    full = run(FETCH, raw, url, hashlib.sha256(body).hexdigest(), 10_000)
    assert (full.returncode, full.stdout) == (1, "")
    assert full.stderr.startswith(f"{raw}: File too large; existing files are intact: free some space")
    assert full.stderr.count("\n") == 1
    assert contents(raw) == {"former.txt": b"former"}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.zip", "raw"]
    assert run(FETCH, raw, url, hashlib.sha256(body).hexdigest(), 10**6).returncode == 0
    assert contents(raw)["text.txt"] == text
