"""Text as arrays of code points."""

from hypothesis import example, given, settings
from hypothesis import strategies as st

from bukva.text.characters import code_points, from_code_points

texts = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from("\0\nж\uffff\U00010000\U0010ffff"))


@settings(max_examples=25)
@given(texts)
@example("")
@example("\uffff")
@example("ж\U00010000")
def test_a_text_survives_a_round_trip_through_code_points(text):
    assert code_points(text).tolist() == list(map(ord, text))
    assert from_code_points(code_points(text)) == text
