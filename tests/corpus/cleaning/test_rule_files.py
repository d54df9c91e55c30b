"""Rule sets and rule files: the choice of a set, mistakes in one sentence each, and what the rules do."""

from collections import Counter

import pytest
import yaml
from corpus.cleaning.cleaned import NOTHING, clean
from hypothesis import example, given, settings
from hypothesis import strategies as st
from works import saved

from bukva.core.errors import BukvaError
from bukva.core.schema import Clean
from bukva.corpus.cleaning.rule_sets import (
    MOST_RULES,
    RULES,
    assembled,
    clean_by,
    fitting_rules,
    read_entries,
    rule_set,
)

EXAMPLE = RULES.parents[4] / "rules" / "example.yaml"
ACTIONS = "drop_lines, delete, replace, normalise, cut_to or cut_from"


def own(tmp_path, content):
    """Return the rule set of a file with this content, which is YAML or a list of rules."""
    file = tmp_path / "own.yaml"
    file.write_text(content if isinstance(content, str) else yaml.safe_dump({"rules": content}), encoding="utf-8")
    return assembled("file", file.name, read_entries(file, file.name))


def sentences(tmp_path, content):
    with pytest.raises(BukvaError) as error:
        own(tmp_path, content)
    return str(error.value).split("\n")


def chosen(folder, *texts, rules="auto", file="-"):
    saved(folder, {str(number): text for number, text in enumerate(texts)})
    rules, report = clean_by(Clean(rules=rules, file=file), folder, folder / "clean")
    return rules, report["why"]


def test_notes_that_would_remove_much_are_not_taken_by_auto(tmp_path):
    """One Latin word removes a whole paragraph if the paragraph is one line."""
    kept, lost = "слово " * 100 + "\n", "слово " * 99 + "Window\n"  # 601 characters each
    assert chosen(tmp_path, 17 * kept + 3 * lost)[0] is rule_set("notes")
    assert chosen(tmp_path, kept + 3 * lost, rules="notes")[1] == "as clean.rules says"
    rules, why = chosen(tmp_path, 16 * kept, (4 * lost).replace("\n", "\r"))
    assert rules is rule_set("literary")
    assert why == "because notes would remove 20.0 % of the text (clean.rules auto)"
    rules, why = chosen(tmp_path, lost)  # notes alone would be an error, because it would remove the whole text
    assert (rules.name, why[:33]) == ("literary", "because notes would remove 100.0 ")


@pytest.mark.parametrize(
    ("text", "rules", "why"),
    [
        ("а" * 899 + "b" * 101, "literary", "only 89.9 % of the letters are Cyrillic"),
        ("а" * 9999 + "b", "notes", "99.9 % of the letters are Cyrillic"),
        ("а" * 989 + "ї" * 11, "literary", "only 98.9 % of the Cyrillic letters are Russian"),
        ("12 + 3 = 15;\n", "literary", "the text has no letters"),
    ],
    ids=range(4),
)
def test_the_rules_of_auto_follow_from_the_shares_of_the_letters(text, rules, why):
    assert fitting_rules(Counter(text)) == (rules, why)


def test_an_own_file_is_taken(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.yaml").write_text("rules:\n- {name: a, delete: x}\n- {name: b, delete: y}\n")
    rules, why = chosen(tmp_path / "raw", "z", rules="file", file="own.yaml")
    assert (rules.name, why) == ("file", "from own.yaml")
    assert clean("xyz\n", rules)[0] == "z\n"
    with pytest.raises(BukvaError, match=r"^params\.yaml, clean\.file: 'none\.yaml' is not a file; use the path of"):
        chosen(tmp_path / "raw", "x", rules="file", file="none.yaml")


INVALID = "is not a valid Python regular expression"
NAMES = "is not a valid rule name; use a letter, followed by up to 39 characters (a-z, 0-9, _), but not line_ends."
SEE = "(docs/text.md has examples)."
MISTAKES = [
    ({"name": "a", "delet": "x"}, "delet: this key is unknown (its value is 'x'). Did you mean `delete`?"),
    ({"delete": "x"}, f"name: '' {NAMES}"),
    ("x", "'x' (str) is invalid. The value should have keys with values."),
    ({"name": "line_ends", "delete": "x"}, f"name: 'line_ends' {NAMES}"),
    ({"name": "a", "delete": "x", "drop_lines": "y"}, f"name: 'a' has 2 actions; use one of {ACTIONS}."),
    ({"name": "a", "replace": "x"},
     "by: None is not valid, because 'replace' and 'by' belong together; use both keys or neither."),
    ({"name": "a", "delete": "(x"},
     f"delete: '(x' {INVALID}: missing ), unterminated subpattern at position 0; correct it {SEE}"),
    ({"name": "a", "replace": "(x)", "by": r"\2"},
     rf"replace: '(x)' {INVALID}: invalid group reference 2 at position 1; correct it {SEE}"),
    ({"name": "a", "replace": "x", "by": r"\n"},
     r"by: '\\n' contains a line end, but a rule is applied to one line at a time; remove the line end."),
    ({"name": "a", "cut_to": ["x"], "cut_from": ["y", "z*"]},
     "cut_from: 'z*' matches in every line; use an expression that matches only the marks."),
]  # fmt: skip


def test_each_mistake_in_a_rule_is_one_sentence(tmp_path):
    expected = [f"own.yaml, rule {number}, {what}" for number, (_, what) in enumerate(MISTAKES, start=1)]
    assert sentences(tmp_path, [rule for rule, _ in MISTAKES]) == expected
    twice = [{"name": name, "delete": "x"} for name in "aab"]
    assert sentences(tmp_path, twice) == ["own.yaml, rule a: 2 rules have this name; use each name once."]


def test_a_file_is_one_list_of_1_to_60_rules(tmp_path):
    many = [{"name": f"a{i}", "delete": f"x{i}"} for i in range(MOST_RULES + 1)]
    advice = "write one key, `rules`, with a list of 1 to 60 rules, as in rules/example.yaml"
    for content, keys in (
        ("rules: x\nmore: 1", "keys ['rules', 'more']"),
        (many, "keys ['rules']"),
        ("- name: a\n  delete: x", "no keys"),
    ):
        assert sentences(tmp_path, content) == [f"own.yaml: is not a rule file ({keys}); {advice}."]
    with pytest.raises(BukvaError, match='duplicate key "delete"'):
        own(tmp_path, "rules:\n- name: a\n  delete: x\n  delete: y\n")


def test_the_actions_of_a_file(tmp_path):
    rules = own(
        tmp_path,
        [
            {"name": "pages", "drop_lines": r"^\s*\d+\s*$"},
            {"name": "notes", "delete": r"\[\d+\]"},
            {"name": "quotes", "replace": "[«»]", "by": '"'},
            {"name": "swap", "replace": r"(\w+)/(\w+)", "by": r"\2 \1"},
            {"name": "form", "normalise": "NFC"},
            {"name": "greek", "drop_lines": "[α-ω]"},
            {"name": "licence", "cut_to": ["Ⓒ 1869", "Издано"], "cut_from": [r"^Напечатано\nв"]},
        ],
    )
    text = "[3]\n Издано τρία\nРаз[1] «два»[22].\r\n 17 \n\nτρία три\nτρία и\nа/б и\u0306\nи так\nНапечатано\nв [4]"
    cleaned, removed = clean(text, rules)
    assert cleaned == 'Раз "два".\n\nб а й\nи так\n'
    assert removed == {
        "line_ends": (1 - 1, 0, 1),
        "licence": (len("[3]\n Издано τρία\nНапечатано\nв [4]\n"), 4, 4),
        "pages": (len(" 17 \n"), 1, 1),
        "notes": (len("[1][22]"), 0, 2),
        "quotes": (0, 0, 2),
        "swap": (0, 0, 1),
        "form": (1, 0, 1),
        "greek": (len("τρία три\nτρία и\n"), 2, 2),
    }


def test_rules_are_repeated_until_nothing_changes(tmp_path):
    unlucky = own(tmp_path, [{"name": name, "replace": name, "by": chr(ord(name) + 1)} for name in "fedcba"])
    assert clean("abcdef\n", unlucky)[0] == "gggggg\n"
    brackets = own(tmp_path, [{"name": "a", "delete": r"\(\)"}])
    assert clean("(" * 101 + "ж" + "()" * 7 + "(" * 53 + ")" * 53 + "\n", brackets)[0] == "(" * 101 + "ж\n"
    spaces = own(tmp_path, [{"name": "a", "replace": r"\s+", "by": " "}])
    assert clean("ж ж  ж\n", spaces) == ("ж ж ж\n", {"line_ends": NOTHING, "a": (1, 0, 1)})  # one match is no change


@pytest.mark.parametrize(
    ("rules", "line", "what"),
    [
        ([("a", "x", "xx")], "ж x", "rule a: 'ж xx' becomes 'ж xxxx'"),
        ([("b", "^(.*)(.)$", r"\2\1")], "жиш", "rule b: 'ишж' becomes 'жиш'"),  # a cycle of three
        ([("a", "^x", "yx"), ("b", "^yx(.*)", r"x\1y")], "x", "rule b: 'xy' becomes 'xyy'"),
    ],
)
def test_rules_without_an_end_are_rejected_by_the_text_that_shows_it(rules, line, what, tmp_path):
    endless = own(tmp_path, [{"name": name, "replace": old, "by": new} for name, old, new in rules])
    with pytest.raises(BukvaError) as error:
        clean(f"{line}\n", endless)
    assert str(error.value).startswith(f"own.yaml, {what}, and the rules never stop changing it; change the rules so")


special = st.sampled_from(["слово", "Bonjour", *"\n  \tиеУuX«7\u0301\u0306\u0308\u0323\u200c\u200d\u00ad\x07"])
texts = st.lists(special | st.characters(exclude_categories=["Cs"]), max_size=40).map("".join)


UNSEEN = "\u00ad\u034f\u200b\u200e\ufeff\u202e\u2060\u200c\u200d\0\x07\x1c"
SPACES = "\u200bسلام\u200bनमस्ते\u200b你好\u200bслово \u200b\u200bword\u200b\n"
SEEN = (
    "«Куда?» — спросил он…\n— 1812 год, — “да”, 'нет' (№ 5).\n"
    "    def f(x):\n\treturn x[0]  # one\n\n\n"
    "می\u200cخواهم\nक\u094d\u200dष\n👩\u200d🚀 ❤\ufe0f\u200d🔥\n"
    "ខ្ញុំ\u200bចង់\u200bរៀន។\u200b PDF\u200bភាសា\nສະ\u200bບາຍ\nสวัสดี\u200bครับ\nမြန်မာ\u200bစာ\n"
    "你好，世界。\u3000「でも」\nEl niño comió.\nза\u0301мок\n"
)


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("".join(f"{char}сло{char}во{char} {char}\n" for char in UNSEEN), "слово\n" * len(UNSEEN)),
        (SPACES, SPACES.replace("\u200b", "")),
        ("и\u0306 е\u00ad\u0308\u200d \t\r", "й ё\n"),
        (SEEN, SEEN),
        ("\x1b[1;31mERROR\x1b[0m disk\x1b[K full\n\x1b]0;title\x07$ ls\n", "ERROR disk full\n$ ls\n"),  # terminal codes
        ("a[31m] \x1b\n", "a[31m]\n"),  # no code without the escape character
        ("one\x0btwo\u2028three\x85four\none\x0b\x0b\u2028two\n", "one two three four\none two\n"),
        ("page\n\x0cnext page\nend \u2029of\u2029 it\x0c\n", "page\nnext page\nend of it\n"),
        ("\fодин\fдва\x0b\fтри \fчетыре\f\f пять\f\n\f\n\f\fшесть\n", "один два три четыре пять\n\nшесть\n"),
    ],
    ids=range(9),
)
def test_literary_removes_what_people_do_not_see_and_keeps_what_they_see(text, cleaned):
    assert clean(text, rule_set("literary"))[0] == cleaned


def literary_and(*names):
    literary, example = (read_entries(path, path.name) for path in (RULES / "literary.yaml", EXAMPLE))
    return assembled("file", "both", [*literary, *(entry for entry in example if entry.name in names)])


def test_rules_of_the_example_remove_stress_accents_of_cyrillic_vowels_and_latin_passages():
    text = "за\u0301мок\nи\u0306 й\u0301 е\u0308 ё\u0301\nе\u0301\u0308 а\u0301\u0301\ncafe\u0301 ќ г\u0301\n"
    stress = literary_and("stress_accents")
    assert clean(text, stress)[0] == "замок\nй й\u0301 ё ё\nё а\ncafé ќ ѓ\n"  # й is not a vowel
    text = "Он сказал:\n  Je vous aime, à 7 h.\nété\n\nI\n — XIV.\n12\nИ ушёл (exit).\n"
    latin = literary_and("latin_passages")
    assert clean(text, latin)[0] == "Он сказал:\n\nI\n — XIV.\n12\nИ ушёл (exit).\n"


WHOLE_EXAMPLE = assembled("file", EXAMPLE.name, read_entries(EXAMPLE, EXAMPLE.name))


@pytest.mark.parametrize("rules", [literary_and("stress_accents", "latin_passages"), WHOLE_EXAMPLE], ids=["two", "all"])
@settings(max_examples=50)
@given(texts)
@example("е\u0301\u0308")
@example("\u0301\u0301")
@example("[[1]2]")
def test_cleaning_a_cleaned_text_changes_nothing(rules, text):
    once, removed = clean(text, rules)
    twice, removed_again = clean(once, rules)
    assert twice == once
    assert set(removed_again.values()) == {NOTHING}
    assert sum(chars for chars, _, _ in removed.values()) == len(text) - len(once)
