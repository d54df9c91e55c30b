"""Unusual texts pass download, clean, tokenize and split unchanged; files without text and a full disk are reported."""

import resource
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from downloads import get
from works import split

from bukva.core.errors import BukvaError, message_for
from bukva.core.schema import Tokenize
from bukva.corpus.cleaning.clean import clean_collection
from bukva.corpus.cleaning.rule_sets import rule_set
from bukva.corpus.splits import tokenize
from bukva.text.ids import load_splits, read_shares, save_splits
from bukva.text.tokenizers import load_tokenizer

CHAR = Tokenize(kind="char", vocabulary="all", vocab_size=257)
SPLIT = split(0.5, 0.25, 0.25, "contiguous")


def stages(root: Path, rules: str = "notes") -> dict[str, Callable[[], object]]:
    """Return a function for each stage, by the name of its output folder. The works are in the folder books."""
    return {
        "raw": lambda: get(root / "raw", "sample", path=root / "books"),
        "clean": lambda: clean_collection(root / "raw", root / "clean", rule_set(rules), ""),
        "tokens": lambda: tokenize(root / "clean", root / "tokens", CHAR, SPLIT),
        "split": lambda: save_splits(root / "split", ids_of(root), read_shares(root / "tokens")),
    }


def ids_of(root: Path) -> np.ndarray:
    return np.load(root / "tokens" / "ids.npy", mmap_mode="r")


def run_stages(root: Path, rules: str, *files: bytes) -> str:
    (root / "books").mkdir(parents=True)
    for name, content in zip("abcdef", files, strict=False):
        (root / "books" / f"{name}.txt").write_bytes(content)
    for stage in stages(root, rules).values():
        stage()
    tokenizer = load_tokenizer(root / "tokens")
    text = "".join(tokenizer.decode(ids) for ids in load_splits(root / "split").values())
    assert tokenizer.decode(ids_of(root)) == text
    return text


UNUSUAL = {  # text -> the same with the rules none
    "\ufeffРаз.\r\nДва.\r\n": "Раз.\nДва.\n",
    "\ufeffРаз.\rДва.\n": "Раз.\nДва.\n",
    "\2": "\2",
    "жжж": "жжж",  # an alphabet of one
    "ж\r\r\n\rж": "ж\n\n\nж",
    "ж\u2028\u0085ж\v\f": "ж\u2028\u0085ж\v\f",  # not line ends here
    "и\u0306😀\U0010ffff": "и\u0306😀\U0010ffff",
}


@pytest.mark.parametrize("text", UNUSUAL, ids=ascii)
def test_unusual_texts_are_unchanged_but_for_line_ends_and_byte_order_marks(text, tmp_path) -> None:
    expected = UNUSUAL[text]
    assert run_stages(tmp_path / "none", "none", text.encode()) == expected
    lines = [line for line in expected.split("\n") if line]
    assert run_stages(tmp_path / "notes", "notes", text.encode()) == "".join(f"{line}\n" for line in lines)


def test_a_work_without_text_is_rejected_but_one_that_cleaning_empties_does_not_disturb_the_others(tmp_path) -> None:
    for number, content in enumerate([b"", b"  \n \r\n\t\n", b"\xef\xbb\xbf \n", "\u00a0\u3000\n".encode()]):
        with pytest.raises(BukvaError, match=r"books/b\.txt: contains no text\. Add text or remove the file"):
            run_stages(tmp_path / str(number), "none", "Раз.".encode(), content)
        assert not (tmp_path / str(number) / "raw").exists()
    works = "Раз.".encode(), b"To be, or not to be", "Два.".encode()
    assert run_stages(tmp_path / "emptied", "notes", *works) == "Раз.\nДва.\n"


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_full_disk_is_reported_keeps_the_former_output_and_allows_a_second_run(tmp_path) -> None:
    run_stages(tmp_path, "notes", "Прежний.".encode())
    (tmp_path / "books" / "a.txt").write_text("Новый, длинный.\n" * 3000)
    (tmp_path / "books" / "b.txt").write_text("Ещё один.\n" * 3000)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    for output, stage in stages(tmp_path).items():
        former = contents(tmp_path)
        resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, limits[1]))
        try:
            with pytest.raises(OSError, match="File too large") as error:
                stage()
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        words = f"{tmp_path / output}: File too large. Existing files are intact. Free some space"
        assert message_for(error.value).startswith(words)
        assert contents(tmp_path) == former
        stage()
        assert contents(tmp_path) != former
