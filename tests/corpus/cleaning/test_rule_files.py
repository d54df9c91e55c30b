"""Files of rules: each mistake is one sentence, and what they ask for is done to each line until nothing changes."""

import re
import unicodedata

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bukva.base.errors import BukvaError
from bukva.config.messages import WAY_BACK
from bukva.corpus.cleaning.clean import clean
from bukva.corpus.cleaning.removals import Removed
from bukva.corpus.cleaning.rule_files import MOST_RULES, line_rules, read_entries
from bukva.corpus.cleaning.rule_sets import RULES, rule_set

ACTIONS = "drop_lines, delete, replace, normalise or drop_passages"


def own(tmp_path, content):
    """The rule set of a file with this content; `content` is YAML, or the list of rules."""
    file = tmp_path / "own.yaml"
    file.write_text(content if isinstance(content, str) else yaml.safe_dump({"rules": content}), encoding="utf-8")
    return line_rules("file", "own.yaml", read_entries(file, "own.yaml"))


def sentences(tmp_path, content):
    with pytest.raises(BukvaError) as error:
        own(tmp_path, content)
    *mistakes, way_back = str(error.value).split("\n")
    assert way_back == WAY_BACK
    return mistakes


# ---- mistakes


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ({"name": "a", "delet": "x"}, "rule 1 (a), delet: unknown key with value 'x'; did you mean delete?"),
        ({"name": "a", "qqq": 1}, "rule 1 (a), qqq: unknown key with value 1; known keys are name, reason, optional, "
         "drop_lines, delete, replace, by, normalise, drop_passages."),
        ({"delete": "x"}, "rule 1, name: missing; give each rule a name."),
        ("x", f"rule 1, 'x' is not a rule; use keys name and one of {ACTIONS}."),
        (None, f"rule 1, None is not a rule; use keys name and one of {ACTIONS}."),
        ({"name": 3, "delete": "x"}, "rule 1, name: 3 (int) is invalid; it should be a valid string."),
        ({"name": "А", "delete": "x"},
         "rule 1, name: 'А' is not a name; use up to 40 of a-z, 0-9 and _, a letter first."),
        ({"name": "line_ends", "delete": "x"},
         "rule 1 (line_ends), name: 'line_ends' is the name of what bukva itself does to line ends; use another."),
        ({"name": "a"}, f"rule 1 (a), name: 'a' has 0 actions; use one of {ACTIONS}."),
        ({"name": "a", "delete": "x", "drop_lines": "y"},
         f"rule 1 (a), name: 'a' has 2 actions; use one of {ACTIONS}."),
        ({"name": "a", "delete": "x", "by": "y"},
         "rule 1 (a), by: 'y' goes with replace, and replace with by; use both or neither."),
        ({"name": "a", "replace": "x"},
         "rule 1 (a), by: None goes with replace, and replace with by; use both or neither."),
        ({"name": "a", "delete": "(x"}, "rule 1 (a), delete: '(x' is not a regular expression of Python: missing ), "
         "unterminated subpattern at position 0; correct it (docs/text.md has examples)."),
        ({"name": "a", "drop_lines": "x**"}, "rule 1 (a), drop_lines: 'x**' is not a regular expression of Python: "
         "multiple repeat at position 2; correct it (docs/text.md has examples)."),
        ({"name": "a", "delete": "[[a]"}, "rule 1 (a), delete: '[[a]' is not a regular expression of Python: "
         "Possible nested set at position 1; correct it (docs/text.md has examples)."),
        ({"name": "a", "replace": "(x)", "by": r"\2"}, r"rule 1 (a), by: '\\2' is not a regular expression of Python: "
         "invalid group reference 2 at position 1; correct it (docs/text.md has examples)."),
        ({"name": "a", "replace": "x", "by": r"\g<y>"}, r"rule 1 (a), by: '\\g<y>' is not a regular expression of "
         "Python: unknown group name 'y'; correct it (docs/text.md has examples)."),
        ({"name": "a", "replace": "x", "by": r"\n"},
         r"rule 1 (a), by: '\\n' contains a line end, but rules see one line at a time; remove it."),
        ({"name": "a", "replace": "x", "by": "y\nz"},
         r"rule 1 (a), by: 'y\nz' contains a line end, but rules see one line at a time; remove it."),
        ({"name": "a", "normalise": "NFD"}, "rule 1 (a), normalise: 'NFD' is unknown; use 'NFC' or 'NFKC'."),
        ({"name": "a", "drop_passages": "Klingon"}, "rule 1 (a), drop_passages: 'Klingon' is not a script of Unicode; "
         "use Latin, Cyrillic, Greek, Han or another."),
        ({"name": "a", "drop_passages": "Common"}, "rule 1 (a), drop_passages: 'Common' is not a script of Unicode; "
         "use Latin, Cyrillic, Greek, Han or another."),
        ({"name": "a", "delete": "x", "optional": 1},
         "rule 1 (a), optional: 1 (int) is invalid; it should be a valid boolean."),
    ],
)  # fmt: skip
def test_a_mistake_in_a_rule_is_one_sentence(rule, expected, tmp_path):
    assert sentences(tmp_path, [rule]) == [f"own.yaml, {expected}"]


def test_each_of_several_mistakes_is_reported(tmp_path):
    rules = [{"name": "a", "delete": "("}, {"name": "b", "delete": "x"}, {"name": "c", "normalise": "nfc"}]
    first, second = sentences(tmp_path, rules)
    assert first.startswith("own.yaml, rule 1 (a), delete: ")
    assert second == "own.yaml, rule 3 (c), normalise: 'nfc' is unknown; use 'NFC' or 'NFKC'."


def test_a_name_or_an_action_twice_is_rejected(tmp_path):
    rules = [{"name": "a", "delete": "x"}, {"name": "a", "delete": "y"}, {"name": "b", "delete": "x"}]
    assert sentences(tmp_path, rules) == [
        "own.yaml, rule a: 2 rules have this name; use each name once.",
        "own.yaml, delete: 'x' is in 2 rules; keep one of them.",
    ]


@pytest.mark.parametrize(
    ("content", "keys"),
    [
        ("rules: []", "['rules']"),
        ("rules:", "['rules']"),
        ("rules: x", "['rules']"),
        ("rule:\n- name: a", "['rule']"),
        ("rules:\n- name: a\n  delete: x\nmore: 1", "['rules', 'more']"),
        ("{}", "[]"),
        ([{"name": f"a{i}", "delete": f"x{i}"} for i in range(MOST_RULES + 1)], "['rules']"),
    ],
    ids=range(7),
)
def test_a_file_is_one_list_of_rules(content, keys, tmp_path):
    advice = "use one key, rules, with a list of 1 to 60 rules (rules/example.yaml is an example)"
    assert sentences(tmp_path, content) == [f"own.yaml: has keys {keys}; {advice}."]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("rules: [", "not YAML: "),
        ("rules:\n- name: a\n  delete: x\n  delete: y\n", 'duplicate key "delete"'),
        ("- name: a", "contains list, not sections with keys"),
    ],
)
def test_a_file_that_is_not_yaml_is_rejected(content, words, tmp_path):
    with pytest.raises(BukvaError) as error:
        own(tmp_path, content)
    assert words in str(error.value)
    assert str(error.value).endswith(WAY_BACK)


def test_the_largest_file_is_accepted(tmp_path):
    assert len(own(tmp_path, [{"name": f"a{i}", "delete": f"x{i}"} for i in range(MOST_RULES)]).rules) == MOST_RULES


@pytest.mark.parametrize(
    "file", [RULES / "literary.yaml", RULES.parents[4] / "rules" / "example.yaml"], ids=lambda f: f.name
)
def test_the_files_of_bukva_are_valid_and_give_a_reason_for_each_rule(file):
    assert all(entry.reason for entry in read_entries(file, file.name))


# ---- what the actions do


def test_the_actions_of_a_file(tmp_path):
    rules = own(
        tmp_path,
        [
            {"name": "pages", "drop_lines": r"^\s*\d+\s*$"},
            {"name": "notes", "delete": r"\[\d+\]"},
            {"name": "quotes", "replace": "[«»]", "by": '"'},
            {"name": "swap", "replace": r"(\w+)/(\w+)", "by": r"\2 \1"},
            {"name": "form", "normalise": "NFC"},
            {"name": "greek", "drop_passages": "Greek"},
        ],
    )
    text = "Раз[1] «два»[22].\r\n 17 \n\nτρία три\nτρία и\nа/б и\u0306\nи так"
    cleaned, removed = clean(text, rules)
    assert cleaned == 'Раз "два".\n\nб а й\nи так\n'
    assert removed == {
        "line_ends": Removed(1 - 1, 0, 1),
        "pages": Removed(len(" 17 \n"), 1, 1),
        "notes": Removed(len("[1][22]"), 0, 2),
        "quotes": Removed(0, 0, 2),
        "swap": Removed(0, 0, 1),
        "form": Removed(1, 0, 1),
        "greek": Removed(len("τρία три\nτρία и\n"), 2, 2),
    }


@pytest.mark.parametrize(
    ("line", "is_passage"),
    [
        ("Bonjour", True),
        ("Bonjour, сказал", True),
        ("abв", True),
        ("abвг", False),  # half is not more than half
        ("12, 13", False),
        ("", False),
        ("XIV", False),
        ("  I. ", False),
        ("XIV siècle", True),
        ("é", True),
        ("ℵ", False),  # a letter of no script
    ],
)
def test_a_passage_is_a_line_with_more_than_half_of_its_letters_in_the_script(line, is_passage, tmp_path):
    rules = own(tmp_path, [{"name": "a", "drop_passages": "Latin"}])
    assert clean(f"Раз.\n{line}\nДва.\n", rules)[0] == ("Раз.\nДва.\n" if is_passage else f"Раз.\n{line}\nДва.\n")


@settings(max_examples=300)
@given(st.text("aéXIVвг α7.", max_size=11))
def test_a_passage_is_counted_by_the_names_of_its_letters(tmp_path_factory, line):
    rules = own(tmp_path_factory.getbasetemp(), [{"name": "a", "drop_passages": "Latin"}])
    letters = [char for char in line if char.isalpha()]
    latin = [char for char in letters if "LATIN" in unicodedata.name(char)]
    is_passage = 2 * len(latin) > len(letters) and not set(letters) <= set("IVXLCDM")
    assert (clean(f"{line}\n", rules)[0] == "") == is_passage


def test_rules_in_an_unlucky_order_are_repeated_until_nothing_changes(tmp_path):
    rules = own(tmp_path, [{"name": name, "replace": name, "by": chr(ord(name) + 1)} for name in "fedcba"])
    assert clean("abcdef\n", rules)[0] == "gggggg\n"


def test_deletions_are_repeated_as_often_as_there_is_something_to_delete(tmp_path):
    rules = own(tmp_path, [{"name": "a", "delete": r"\(\)"}])
    assert clean("(" * 101 + "ж" + "()" * 7 + "(" * 53 + ")" * 53 + "\n", rules)[0] == "(" * 101 + "ж\n"


@pytest.mark.parametrize(
    ("rules", "line", "what"),
    [
        ([("a", "x", "xx")], "ж x", "rule a: 'ж xx' becomes 'ж xxxx'"),
        ([("a", "^", "-")], "ж", "rule a: '-ж' becomes '--ж'"),
        ([("b", "^(.*)(.)$", r"\2\1")], "жиш", "rule b: 'ишж' becomes 'жиш'"),  # a cycle of three
    ],
)
def test_rules_without_an_end_are_rejected_by_the_text_that_shows_it(rules, line, what, tmp_path):
    endless = own(tmp_path, [{"name": name, "replace": old, "by": new} for name, old, new in rules])
    with pytest.raises(BukvaError) as error:
        clean(f"{line}\n", endless)
    assert str(error.value) == (
        f"own.yaml, {what}, which the rules change again, and so on without end; "
        f"let no rule match what it or another rule writes, or change their order.\n{WAY_BACK}"
    )


def test_rules_that_undo_each_other_in_one_pass_change_nothing(tmp_path):
    rules = own(tmp_path, [{"name": "a", "replace": "x", "by": "y"}, {"name": "b", "replace": "y", "by": "x"}])
    assert clean("жx\n", rules)[0] == "жx\n"


def test_two_rules_that_undo_each_other_are_rejected(tmp_path):
    rules = own(
        tmp_path, [{"name": "a", "replace": "^x", "by": "yx"}, {"name": "b", "replace": "^yx(.*)", "by": r"x\1y"}]
    )
    with pytest.raises(BukvaError, match=r"own.yaml, rule b: 'xy' becomes 'xyy', which the rules change again"):
        clean("x\n", rules)


# ---- literary: the oracle is its description, in plain Python

JOINED = re.compile(
    "[\u0590-\u109f\u1780-\u18af\u1a00-\u1cff\ua800-\uabff\ufb1d-\ufdff\ufe0f\ufe70-\ufefc\U00010000-\U0010ffff]"
)
UNSEEN = {
    "\u00ad", "\u034f", "\u061c", "\u200b", "\u200e", "\u200f", "\ufeff", "\ufff9", "\ufffa", "\ufffb",
    *map(chr, [*range(0x202A, 0x202F), *range(0x2060, 0x2070)]),
}  # fmt: skip


def literary_line(line):
    while True:
        before = line
        line = "".join(char for char in line if char == "\t" or unicodedata.category(char) != "Cc")
        line = "".join(char for char in line if char not in UNSEEN)
        line = "".join(
            char for place, char in enumerate(line)
            if char not in "\u200c\u200d" or (place and JOINED.match(line[place - 1]))
        )  # fmt: skip
        line = unicodedata.normalize("NFC", line.rstrip())
        if line == before:
            return line


def literary(text):
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    if lines[-1] == "":
        lines.pop()
    return "".join(f"{literary_line(line)}\n" for line in lines)


marks = st.sampled_from(
    ["\u0301", "\u0306", "\u0308", "\u0304", "\u0323", "\u200c", "\u200d", "\u00ad", "\x07", "\x85"]
)
plain = st.sampled_from(
    ["\n", "\n", " ", "  ", "\t", "и", "е", "У", "слово", "u", "e", "Bonjour", "X", "«", "—", "…", "7"]
)
texts = st.lists(plain | marks | st.characters(exclude_categories=["Cs"]), max_size=40).map("".join)


@settings(max_examples=500)
@given(texts)
@example("\u0301\u0301е\u0301\u0308 \u00ad \n")
@example("ǖ\u034f\u0323")
def test_literary_agrees_with_the_oracle(text):
    assert clean(text, rule_set("literary"))[0] == literary(text)


@pytest.mark.parametrize("form", ["{}", "ж{}ж", "ж{}", "ا{}\u200d"])
def test_every_symbol_of_the_basic_plane_agrees_with_the_oracle(form):
    text = "\n".join(form.format(chr(code)) for code in range(0x10000) if not 0xD800 <= code < 0xE000)
    assert clean(text, rule_set("literary"))[0] == literary(text)


@pytest.mark.parametrize(
    "text",
    [
        "«Куда?» — спросил он…\n— 1812 год, — “да”, 'нет' (№ 5).\n",
        "    def f(x):\n\treturn x[0]  # one\n\n\nclass A:\n    pass\n",
        "  Стих\n      лесенкой\n\n\nСтрофа\n",
        "می\u200cخواهم\nक\u094d\u200dष\n👩\u200d🚀 ❤\ufe0f\u200d🔥\n",
        "你好，世界。\u3000「でも」\n",
        "El niño comió.\nRésumé naïf\n",
    ],
)
def test_literary_keeps_what_people_see(text):
    assert clean(text, rule_set("literary"))[0] == text


def test_literary_composes_letters_and_keeps_stress():
    assert clean("и\u0306 е\u0308 за\u0301мок\n", rule_set("literary"))[0] == "й ё за\u0301мок\n"


def optional(*names):
    entries = read_entries(RULES / "literary.yaml", "literary.yaml")
    return line_rules("literary", "literary.yaml", [one for one in entries if not one.optional or one.name in names])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("за\u0301мок\n", "замок\n"),
        ("и\u0306 Й й\u0301 е\u0308 ё\u0301\n", "й Й й\u0301 ё ё\n"),  # й is no vowel
        ("е\u0301\u0308 е\u0308\u0301\n", "ё ё\n"),
        ("а\u0301\u0301\n", "а\n"),
        ("caf\u00e9 cafe\u0301 ќ г\u0301\n", "café café ќ ѓ\n"),
    ],
)
def test_stress_accents_are_removed_from_cyrillic_vowels_only(text, expected):
    assert clean(text, optional("stress_accents"))[0] == expected


def test_latin_passages_are_dropped_as_a_whole():
    text = "Он сказал:\n  Je vous aime,\n  beaucoup.\n\nI\nИ ушёл (exit).\n"
    assert clean(text, optional("latin_passages"))[0] == "Он сказал:\n\nI\nИ ушёл (exit).\n"


# ---- idempotence


def example_rules():
    return line_rules("file", "example.yaml", read_entries(RULES.parents[4] / "rules" / "example.yaml", "example.yaml"))


@pytest.mark.parametrize(
    "rules",
    [rule_set("none"), rule_set("literary"), optional("stress_accents", "latin_passages"), example_rules()],
    ids=["none", "literary", "literary with options", "example"],
)
@settings(max_examples=300)
@given(texts)
@example("е\u0301\u0308")
@example("\u0301\u0301")
@example("[[1]2]")
def test_cleaning_a_cleaned_text_changes_nothing(rules, text):
    once, removed = clean(text, rules)
    twice, removed_again = clean(once, rules)
    assert twice == once
    assert set(removed_again.values()) == {Removed()}
    assert sum(counts.chars for counts in removed.values()) == len(text) - len(once)


@st.composite
def any_rules(draw):
    piece = st.sampled_from(["a", "b", "ab", "aa", "[ab]", "^a", "b$", "a+", "(a)(b)", "(?<=a)b", " "])
    rules = []
    for index in range(draw(st.integers(1, 3))):
        action = draw(st.sampled_from(["delete", "drop_lines", "replace"]))
        entry = {"name": f"r{index}", action: f"{draw(piece)}(?#{index})"}
        rules.append(entry | ({"by": draw(st.sampled_from(["", "a", "b", "ba", "c"]))} if action == "replace" else {}))
    return rules


@settings(max_examples=300)
@given(any_rules(), st.text("abc \n", max_size=20))
def test_a_file_of_any_rules_is_idempotent_or_rejected(tmp_path_factory, rules, text):
    rule_set_ = own(tmp_path_factory.getbasetemp(), rules)
    try:
        once, _ = clean(text, rule_set_)
    except BukvaError as error:
        assert "which the rules change again, and so on without end" in str(error)  # noqa: PT017
        return
    assert clean(once, rule_set_)[0] == once
