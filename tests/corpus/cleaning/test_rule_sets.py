"""Which rules clean a collection: by name, by its letters, or from a file of the user; options are checked first."""

import pytest

from bukva.base.errors import BukvaError
from bukva.config.data import Clean
from bukva.config.messages import WAY_BACK
from bukva.corpus.cleaning.clean import clean, clean_collection
from bukva.corpus.cleaning.rule_sets import chosen_rules
from bukva.corpus.collection import Document, write_collection


@pytest.fixture
def raw(tmp_path):
    """Make a collection of these texts."""

    def make(*texts):
        folder = tmp_path / f"raw {len(list(tmp_path.iterdir()))}"
        folder.mkdir()
        write_collection(folder, [(Document("-", "-", str(i)), text) for i, text in enumerate(texts)])
        return folder

    return make


def params(rules, file="-", optional=()):
    return Clean(rules=rules, file=str(file), optional=list(optional))


def rejection(*arguments):
    with pytest.raises(BukvaError) as error:
        chosen_rules(*arguments)
    sentence, way_back = str(error.value).split("\n")
    assert way_back == WAY_BACK
    return sentence


OWN = "rules:\n- {name: a, delete: x}\n- {name: b, delete: y, optional: true}\n"


@pytest.mark.parametrize("name", ["notes", "literary", "none"])
def test_a_named_set_is_taken_as_it_is(name, raw):
    chosen = chosen_rules(params(name), raw("Быть"))
    assert (chosen.rules.name, chosen.why) == (name, "as clean.rules says")


def test_auto_counts_the_letters_of_all_works(raw):
    chosen = chosen_rules(params("auto"), raw("а" * 95, "b" * 5))
    assert (chosen.rules.name, chosen.why) == ("notes", "because 95.0 % of the letters are Cyrillic (clean.rules auto)")
    chosen = chosen_rules(params("auto"), raw("To be", "о"))
    assert (chosen.rules.name, chosen.why) == ("literary", "because 80.0 % of the letters are Latin (clean.rules auto)")


PARAGRAPH = "слово " * 99 + "Windows\n"


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
def test_notes_that_would_remove_much_are_not_taken_by_auto_and_say_so_where_they_are_named(line_end, raw):
    """One Latin word is enough for a whole paragraph that is one line."""
    kept, lost = "слово " * 100 + "\n", PARAGRAPH.replace("Windows", "Window")  # 601 characters each
    little = raw((17 * kept + 3 * lost).replace("\n", line_end))
    assert chosen_rules(params("auto"), little).rules.name == "notes"
    assert chosen_rules(params("notes"), little).why == "as clean.rules says"
    much = raw((16 * kept).replace("\n", line_end), (4 * lost).replace("\n", line_end))
    chosen = chosen_rules(params("auto"), much)
    why = "because notes would remove 20.0 % of the text (clean.rules auto)"
    assert (chosen.rules.name, chosen.why) == ("literary", why)
    assert chosen_rules(params("auto", optional=["latin_passages"]), much).rules.name == "literary"
    chosen = chosen_rules(params("notes"), much)
    why = "as clean.rules says, but they remove 20.0 % of the text, and auto takes literary"
    assert (chosen.rules.name, chosen.why) == ("notes", why)


def test_auto_does_not_come_to_rules_that_remove_the_whole_text(raw, tmp_path):
    folder = raw(PARAGRAPH * 3)
    chosen = chosen_rules(params("auto"), folder)
    assert chosen.why == "because notes would remove 100.0 % of the text (clean.rules auto)"
    assert clean_collection(folder, tmp_path / "clean", chosen)["chars"] == len(PARAGRAPH) * 3


def test_an_own_file_is_taken_with_the_optional_rules_that_are_wanted(raw, tmp_path):
    file = tmp_path / "own.yaml"
    file.write_text(OWN)
    chosen = chosen_rules(params("file", file), raw("x"))
    assert (chosen.rules.name, chosen.why) == ("file", f"from {file}")
    assert clean("xyz\n", chosen.rules)[0] == "yz\n"
    assert clean("xyz\n", chosen_rules(params("file", file, ["b"]), raw("x")).rules)[0] == "z\n"


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("nowhere.yaml", "is not a file"),
        ("src", "is not a file"),
        ("a" * 5000, "cannot be looked up (File name too long)"),
        ("~nobody-of-this-name/a", "cannot be looked up (Could not determine home directory.)"),
    ],
)
def test_a_file_that_does_not_exist_is_rejected(path, why, raw):
    sentence = rejection(params("file", path), raw("x"))
    assert sentence.startswith(f"params.yaml, clean.file: {path[:9]!r}"[:-1])
    assert sentence.endswith(f" {why}; use the path of a rule file, such as rules/example.yaml.")


def test_a_mistake_in_an_own_file_names_it_as_the_user_wrote_it(raw, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.yaml").write_text("rules:\n- {name: a, delete: '('}\n")
    assert rejection(params("file", "own.yaml"), raw("x")).startswith("own.yaml, rule 1 (a), delete: '(' is not a reg")


@pytest.mark.parametrize(
    ("rules", "sentence"),
    [
        ("literary", "'latin' is not an optional rule of rules literary; use stress_accents or latin_passages."),
        ("notes", "'latin' is not an optional rule of rules notes; it has none; use []."),
        ("none", "'latin' is not an optional rule of rules none; it has none; use []."),
        ("auto", "'latin' is not an optional rule of rules notes; it has none; use []."),
    ],
)
def test_an_unknown_optional_rule_is_rejected(rules, sentence, raw):
    assert rejection(params(rules, optional=["latin"]), raw("Раз.")) == f"params.yaml, clean.optional: {sentence}"


def test_a_rule_that_an_own_file_applies_always_is_not_optional(raw, tmp_path):
    (tmp_path / "own.yaml").write_text(OWN)
    sentence = rejection(params("file", tmp_path / "own.yaml", ["a"]), raw("x"))
    assert sentence.endswith("own.yaml; use b.")


def test_passages_in_the_main_script_of_the_text_are_not_dropped(raw):
    assert rejection(params("literary", optional=["latin_passages"]), raw("слово", "words")) == (
        "rule latin_passages drops passages in Latin, but 50.0 % of the letters are Latin; leave it out of "
        "clean.optional, or of your rule file."
    )
    chosen = chosen_rules(params("literary", optional=["latin_passages"]), raw("слово", "word"))
    assert "latin_passages" in chosen.rules.rules


def test_the_report_of_an_own_file_has_counts_and_examples_of_each_rule(raw, tmp_path):
    (tmp_path / "own.yaml").write_text("rules:\n- {name: a, replace: x+, by: z}\n- {name: b, drop_lines: ^y}\n")
    works = [f"Строка {i}\nжжxxж xж\n\nyes\n" for i in range(7)]
    folder = raw(*works)
    report = clean_collection(folder, tmp_path / "clean", chosen_rules(params("file", tmp_path / "own.yaml"), folder))
    assert report["rule_set"] == "file"
    assert report["removed"] == [
        {"rule": "line_ends", "chars": 0, "lines": 0, "places": 0},
        {"rule": "a", "chars": 7, "lines": 0, "places": 14},
        {"rule": "b", "chars": 28, "lines": 7, "places": 7},
    ]
    assert report["examples"] == {
        "a": [
            {"work": f"-/-/{i}", "line": 2, "before": "жж", "removed": "xx", "after": "ж xж", "replacement": "z"}
            for i in range(5)
        ],
        "b": [{"work": f"-/-/{i}", "line": 4, "before": "", "removed": "yes", "after": ""} for i in range(5)],
    }
    assert report["lost_most"] == {f"-/-/{i}": {"chars": 5, "share": 0.2174} for i in range(7)}
    assert report["letters"] == {"Cyrillic": 7 * 10, "Latin": 14}
    assert report["openings"] == ["Строка 0", "Строка 1", "Строка 2"]
