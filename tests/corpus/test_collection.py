"""A collection of documents is read as it was written."""

import tempfile
import unicodedata
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bukva.base.errors import BukvaError
from bukva.corpus.collection import TYPES, Document, documents, read_table, read_texts, write_collection

# valid file names: no slash, no zero byte, and short enough in UTF-8
names = st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1, max_size=20)
names = names.filter(lambda name: name not in {".", ".."})
odd = st.sampled_from(["NA", "007", "null", "1e5", "a\rb", "a\r\nb", '"', " ", "-", "\ufeff"])
years = st.one_of(st.none(), st.sampled_from(["1863", "1863-1869", "NA", "-"]))


def one_file(document: Document) -> str:
    """Equal for documents that some file systems store in one file or folder."""
    return unicodedata.normalize("NFC", f"{document.category}/{document.author}/{document.work}").casefold()


collections = st.lists(
    st.tuples(st.builds(Document, st.just("c"), st.sampled_from(["A", "Ю", "-"]), odd | names, years), st.text()),
    unique_by=lambda entry: one_file(entry[0]),
    max_size=5,
)


@settings(deadline=None, max_examples=50)
@given(collections)
def test_any_names_and_texts_survive_a_round_trip(entries: list[tuple[Document, str]]) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        written = write_collection(folder, entries)
        pd.testing.assert_frame_equal(read_table(folder), written)
        by_name = sorted(entries, key=lambda entry: (entry[0].category, entry[0].author, entry[0].work))
        assert list(read_texts(folder, written)) == by_name


def test_the_table_counts_characters_and_bytes_and_pins_the_bytes(tmp_path: Path) -> None:
    table = write_collection(tmp_path, [(Document("c", "A", "w", "1863-1869"), "Ёж\r\n")])
    digest = "dae1001c770ea4c63e06334ad2aeb9d11c00839d586d1c6cef9f852970b364eb"  # printf 'Ёж\r\n' | sha256sum
    assert table.to_dict("records") == [dict(zip(TYPES, ("c", "A", "w", "1863-1869", 4, 6, digest), strict=True))]


def test_rows_are_sorted_by_code_points_whatever_the_order_of_the_texts(tmp_path: Path) -> None:
    names = [("a", "Z", "1"), ("a", "a", "B"), ("a", "a", "b"), ("b", "-", "Ё")]
    order = [Document(*name) for name in names]
    table = write_collection(tmp_path, [(document, "x") for document in reversed(order)])
    assert list(documents(table)) == order


def test_some_rows_of_the_table_read_only_their_texts(tmp_path: Path) -> None:
    table = write_collection(tmp_path, [(Document("c", "A", work), work) for work in "xyz"])
    assert [text for _, text in read_texts(tmp_path, table[table["work"] != "y"])] == ["x", "z"]


def test_an_empty_table_has_the_columns(tmp_path: Path) -> None:
    assert list(write_collection(tmp_path, []).columns) == list(TYPES)


def test_texts_are_written_one_at_a_time(tmp_path: Path) -> None:
    def texts():
        for work in "xyz":
            yield Document("c", "A", work), work
            assert (tmp_path / "c" / "A" / f"{work}.txt").read_text() == work  # before the next one is taken

    write_collection(tmp_path, texts())


def test_slashes_in_the_name_of_a_work_make_subfolders(tmp_path: Path) -> None:
    document = Document("c", "A", "cycle/part one/poem")
    table = write_collection(tmp_path, [(document, "x")])
    assert (tmp_path / "c" / "A" / "cycle" / "part one" / "poem.txt").read_text() == "x"
    assert list(documents(table)) == [document]


def test_two_works_with_one_name_are_rejected_and_named(tmp_path: Path) -> None:
    with pytest.raises(BukvaError, match=r"c/A/w\.txt: two works"):
        write_collection(tmp_path, [(Document("c", "A", "w"), "one"), (Document("c", "A", "w"), "two")])
    assert (tmp_path / "c" / "A" / "w.txt").read_text() == "one"
