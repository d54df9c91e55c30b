"""Rule files: each mistake is one sentence, and the rules are applied to each line until nothing changes."""

import pytest
import yaml
from corpus.cleaning.cleaned import NOTHING, clean
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bukva.core.errors import BukvaError
from bukva.corpus.cleaning.rule_sets import MOST_RULES, RULES, assembled, read_entries, rule_set

EXAMPLE = RULES.parents[4] / "rules" / "example.yaml"
ACTIONS = "drop_lines, delete, replace, normalise, cut_to or cut_from"


def rules_of(file):
    """Return the rule set of a file."""
    return assembled("file", file.name, read_entries(file, file.name))


def own(tmp_path, content):
    """Return the rule set of a file with this content, which is YAML or a list of rules."""
    file = tmp_path / "own.yaml"
    file.write_text(content if isinstance(content, str) else yaml.safe_dump({"rules": content}), encoding="utf-8")
    return rules_of(file)


def sentences(tmp_path, content):
    with pytest.raises(BukvaError) as error:
        own(tmp_path, content)
    return str(error.value).split("\n")


# ---- mistakes

INVALID = "is not a valid Python regular expression"
NAMES = "is not a valid rule name; use a letter, followed by up to 39 characters (a-z, 0-9, _), but not line_ends."
MISTAKES = [
    ({"name": "a", "delet": "x"}, "delet: this key is unknown (its value is 'x'). Did you mean `delete`?"),
    ({"delete": "x"}, f"name: '' {NAMES}"),
    ("x", "'x' (str) is invalid. The value should have keys with values."),
    ({"name": "А", "delete": "x"}, f"name: 'А' {NAMES}"),
    ({"name": "line_ends", "delete": "x"}, f"name: 'line_ends' {NAMES}"),
    ({"name": "a", "delete": "x", "drop_lines": "y"}, f"name: 'a' has 2 actions; use one of {ACTIONS}."),
    ({"name": "a", "replace": "x"},
     "by: None is not valid, because 'replace' and 'by' belong together; use both keys or neither."),
    ({"name": "a", "delete": "(x"},
     f"delete: '(x' {INVALID}: missing ), unterminated subpattern at position 0; correct it (docs/text.md has "
     "examples)."),
    ({"name": "a", "replace": "(x)", "by": r"\2"},
     rf"replace: '(x)' {INVALID}: invalid group reference 2 at position 1; correct it (docs/text.md has examples)."),
    ({"name": "a", "replace": "x", "by": r"\n"},
     r"by: '\\n' contains a line end, but a rule is applied to one line at a time; remove the line end."),
    ({"name": "a", "cut_to": ["x"], "delete": "y"}, f"name: 'a' has 2 actions; use one of {ACTIONS}."),
    ({"name": "a", "cut_to": "x"}, "cut_to: 'x' (str) is invalid. The value should be a valid list."),
    ({"name": "a", "cut_from": []}, "cut_from: [] (list) is invalid. The value should have at least 1 item after "
     "validation, not 0."),
    ({"name": "a", "cut_to": ["x"], "cut_from": ["y", "z*"]},
     "cut_from: 'z*' matches in every line; use an expression that matches only the marks."),
    ({"name": "a", "cut_from": ["y", "(z"]},
     f"cut_from: '(z' {INVALID}: missing ), unterminated subpattern at position 0; correct it (docs/text.md has "
     "examples)."),
]  # fmt: skip


def test_each_mistake_in_a_rule_is_one_sentence(tmp_path):
    expected = [f"own.yaml, rule {number}, {what}" for number, (_, what) in enumerate(MISTAKES, start=1)]
    assert sentences(tmp_path, [rule for rule, _ in MISTAKES]) == expected


def test_a_name_twice_is_rejected(tmp_path):
    rules = [{"name": "a", "delete": "x"}, {"name": "a", "delete": "y"}, {"name": "b", "delete": "x"}]
    assert sentences(tmp_path, rules) == [
        "own.yaml, rule a: 2 rules have this name; use each name once.",
    ]


def test_a_file_is_one_list_of_1_to_60_rules(tmp_path):
    many = [{"name": f"a{i}", "delete": f"x{i}"} for i in range(MOST_RULES + 1)]
    advice = "write one key, `rules`, with a list of 1 to 60 rules, as in rules/example.yaml"
    for content, keys in (
        ("rules: []", "keys ['rules']"),
        ("rules: x\nmore: 1", "keys ['rules', 'more']"),
        (many, "keys ['rules']"),
        ("- name: a\n  delete: x", "no keys"),
        ("", "no keys"),
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
    undone = own(tmp_path, [{"name": "a", "replace": "x", "by": "y"}, {"name": "b", "replace": "y", "by": "x"}])
    assert clean("жx\n", undone)[0] == "жx\n"


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
    assert str(error.value) == (
        f"own.yaml, {what}, and the rules never stop changing it; "
        f"change the rules so that no rule matches the text that a rule inserts, or change their order."
    )


special = st.sampled_from(["слово", "Bonjour", *"\n  \tиеУuX«7\u0301\u0306\u0308\u0323\u200c\u200d\u00ad\x07"])
texts = st.lists(special | st.characters(exclude_categories=["Cs"]), max_size=40).map("".join)


def test_literary_removes_what_people_do_not_see():
    unseen = "\u00ad\u034f\u200b\u200e\ufeff\u202e\u2060\u200c\u200d\0\x07\x1c"
    text = "".join(f"{char}сло{char}во{char} {char}\n" for char in unseen)
    assert clean(text, rule_set("literary"))[0] == "слово\n" * len(unseen)
    spaces = "\u200bسلام\u200bनमस्ते\u200b你好\u200bслово \u200b\u200bword\u200b\n"
    assert clean(spaces, rule_set("literary"))[0] == spaces.replace("\u200b", "")
    assert clean("и\u0306 е\u00ad\u0308\u200d \t\r", rule_set("literary"))[0] == "й ё\n"


def test_literary_keeps_what_people_see():
    text = (
        "«Куда?» — спросил он…\n— 1812 год, — “да”, 'нет' (№ 5).\n"
        "    def f(x):\n\treturn x[0]  # one\n\n\n"
        "می\u200cخواهم\nक\u094d\u200dष\n👩\u200d🚀 ❤\ufe0f\u200d🔥\n"
        "ខ្ញុំ\u200bចង់\u200bរៀន។\u200b PDF\u200bភាសា\nສະ\u200bບາຍ\nสวัสดี\u200bครับ\nမြန်မာ\u200bစာ\n"
        "你好，世界。\u3000「でも」\nEl niño comió.\nза\u0301мок\n"
    )
    assert clean(text, rule_set("literary"))[0] == text


def literary_and(*names):
    """Return the rules literary, followed by rules of the example."""
    files = [(path, path.name) for path in (RULES / "literary.yaml", EXAMPLE)]
    literary, example = (read_entries(*file) for file in files)
    return assembled("file", "both", [*literary, *(entry for entry in example if entry.name in names)])


def test_rules_of_the_example_remove_stress_accents_of_cyrillic_vowels_and_latin_passages():
    text = "за\u0301мок\nи\u0306 й\u0301 е\u0308 ё\u0301\nе\u0301\u0308 а\u0301\u0301\ncafe\u0301 ќ г\u0301\n"
    stress = literary_and("stress_accents")
    assert clean(text, stress)[0] == "замок\nй й\u0301 ё ё\nё а\ncafé ќ ѓ\n"  # й is not a vowel
    text = "Он сказал:\n  Je vous aime, à 7 h.\nété\n\nI\n — XIV.\n12\nИ ушёл (exit).\n"
    latin = literary_and("latin_passages")
    assert clean(text, latin)[0] == "Он сказал:\n\nI\n — XIV.\n12\nИ ушёл (exit).\n"


@pytest.mark.parametrize(
    "rules",
    [literary_and("stress_accents", "latin_passages"), rules_of(EXAMPLE)],
    ids=["literary", "example"],
)
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
