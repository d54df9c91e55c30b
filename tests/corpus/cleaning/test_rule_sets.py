"""Selection of the rule set: by its name, by the letters of the collection, or from a user's file."""

from collections import Counter

import pytest
from corpus.cleaning.cleaned import clean

from bukva.core.errors import BukvaError
from bukva.core.schema import Clean
from bukva.corpus.cleaning.rule_sets import chosen_rules
from bukva.corpus.cleaning.scripts import fitting_rules
from bukva.text.collection import Document, write_collection


@pytest.fixture
def raw(tmp_path):
    """Return a function that writes a collection of texts and returns its folder."""

    def make(*texts):
        folder = tmp_path / f"raw {len(list(tmp_path.iterdir()))}"
        write_collection(folder, [(Document("-", "-", str(i)), text) for i, text in enumerate(texts)])
        return folder

    return make


def chosen(folder, rules, file="-"):
    return chosen_rules(Clean(rules=rules, file=str(file)), folder)


def name_and_why(*arguments, **options):
    rules, why = chosen(*arguments, **options)
    return rules.name, why


def rejection(*arguments, **options):
    with pytest.raises(BukvaError) as error:
        chosen(*arguments, **options)
    return str(error.value)


def test_notes_that_would_remove_much_are_not_taken_by_auto(raw):
    """One Latin word removes a whole paragraph if the paragraph is one line."""
    kept, lost = "слово " * 100 + "\n", "слово " * 99 + "Window\n"  # 601 characters each
    little = raw(17 * kept + 3 * lost)
    assert name_and_why(little, "auto")[0] == "notes"
    assert name_and_why(little, "notes")[1] == "as clean.rules says"
    much = raw(16 * kept, (4 * lost).replace("\n", "\r"))
    why = "because notes would remove 20.0 % of the text (clean.rules auto)"
    assert name_and_why(much, "auto") == ("literary", why)
    why = "because notes would remove 40.0 % of the text (clean.rules auto)"  # `indentation` alone removes so much
    assert name_and_why(raw("    слово\n" * 7), "auto") == ("literary", why)


@pytest.mark.parametrize(
    ("text", "rules", "why"),
    [
        ("а" * 899 + "b" * 101, "literary", "only 89.9 % of the letters are Cyrillic"),
        ("а" * 9999 + "b", "notes", "99.9 % of the letters are Cyrillic"),
        ("а" * 99 + "ї", "notes", "100.0 % of the letters are Cyrillic"),
        ("а" * 989 + "ї" * 11, "literary", "only 98.9 % of the Cyrillic letters are Russian"),
        ("12 + 3 = 15;\n", "literary", "the text has no letters"),
    ],
    ids=range(5),
)
def test_the_rules_of_auto_follow_from_the_shares_of_the_letters(text, rules, why):
    assert fitting_rules(Counter(text)) == (rules, why)


def test_an_own_file_is_taken(raw, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.yaml").write_text("rules:\n- {name: a, delete: x}\n- {name: b, delete: y}\n")
    rules, why = chosen(raw("x"), "file", "own.yaml")
    assert (rules.name, why) == ("file", "from own.yaml")
    assert clean("xyz\n", rules)[0] == "z\n"
    (tmp_path / "own.yaml").write_text("rules:\n- {name: a, delete: '('}\n")
    assert rejection(raw("x"), "file", "own.yaml").startswith("own.yaml, rule 1, delete: '(' is not a valid Python reg")
    assert rejection(raw("x"), "file", "none.yaml") == (
        "params.yaml, clean.file: 'none.yaml' is not a file; use the path of a rule file, such as rules/example.yaml."
    )


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("\x1b[1;31mERROR\x1b[0m disk\x1b[K full\n", "ERROR disk full\n"),
        ("\x1b]0;title\x07$ ls\n", "$ ls\n"),
        ("a[31m] \x1b\n", "a[31m]\n"),  # no code without the escape character
        ("one\x0btwo\u2028three\x85four\n", "one two three four\n"),
        ("one\x0b\x0b\u2028two\n", "one two\n"),
        ("page\n\x0cnext page\n", "page\nnext page\n"),
        ("end \u2029of\u2029 it\x0c\n", "end of it\n"),
        ("\fодин\fдва\x0b\fтри \fчетыре\f\f пять\f\n\f\n\f\fшесть\n", "один два три четыре пять\n\nшесть\n"),
    ],
)
def test_literary_removes_terminal_codes_whole_and_keeps_words_apart_at_breaks(raw, text, cleaned):
    rules, _ = chosen(raw("x"), "literary")
    assert clean(text, rules)[0] == cleaned
