"""A collection of works is read exactly as it was written."""

from dataclasses import astuple
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from works import texts_in

from bukva.text import collection
from bukva.text.characters import from_code_points
from bukva.text.collection import TEXT, TYPES, Work, read_codes, read_table, read_texts, write_collection

names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
odd = st.sampled_from(["NA", "007", "null", "1e5", "a\rb", "a\r\nb", '"', " ", "-", "\ufeff"])
years = st.one_of(st.none(), st.sampled_from(["1863", "1863-1869", "NA", "-"]))


@settings(max_examples=17)
@given(
    st.lists(
        st.tuples(st.builds(Work, odd | names, st.sampled_from(["A", "Ю", "-"]), odd | names, years), st.text()),
        unique_by=lambda entry: astuple(entry[0])[:3],
        max_size=5,
    )
)
def test_any_names_and_texts_survive_a_round_trip_sorted_by_code_points(tmp_path_factory, entries) -> None:
    folder = tmp_path_factory.getbasetemp() / "collection"
    folder.mkdir(exist_ok=True)
    written = write_collection(folder, entries)
    pd.testing.assert_frame_equal(read_table(folder), written)
    by_name = sorted(entries, key=lambda entry: astuple(entry[0])[:3])
    assert list(texts_in(folder).items()) == by_name
    joined = "".join(text for _, text in by_name)
    assert (folder / TEXT).read_bytes() == joined.encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(collection, "CHUNK", 3)
        assert from_code_points(read_codes(folder, written)) == joined


def test_the_table_says_where_each_work_is_and_pins_its_bytes(tmp_path: Path) -> None:
    works = [(Work("c", "A", "w", "1863-1869"), "Ёж\r\n"), (Work("c", "A", "v"), "ж")]
    table = write_collection(tmp_path, works)
    assert list(table.columns) == list(TYPES)
    digest = "dae1001c770ea4c63e06334ad2aeb9d11c00839d586d1c6cef9f852970b364eb"  # printf 'Ёж\r\n' | sha256sum
    expected = ("c", "A", "w", "1863-1869", 1, 4, 2, 6, digest)
    assert table.to_dict("records")[1] == dict(zip(TYPES, expected, strict=True))
    assert table["year"].isna().tolist() == [True, False]
    second = read_texts(tmp_path, table[table["work"] == "w"])
    assert [text for _, text in second] == ["Ёж\r\n"]
    pd.testing.assert_series_equal(write_collection(tmp_path, []).dtypes, table.dtypes)
