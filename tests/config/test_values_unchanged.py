"""Config accepts values or rejects them and never changes one; so no stage depends on its code in dvc.yaml."""

import copy

import pytest
from config.values import LARGEST, VALUES
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError
from pydantic._internal._decorators import PydanticDescriptorProxy
from ruamel.yaml import YAML

from bukva.config import choices, schema
from bukva.config.load import PARAMS
from bukva.config.schema import Params
from bukva.config.section import Section
from bukva.corpus.cleaning.rule_sets import RULES
from bukva.models.transformer import ACTIVATIONS, NORMS, POSITIONS, PROJ_INITS
from bukva.tokenizers import TOKENIZERS
from bukva.training.optimizers import OPTIMIZERS

ROOT = RULES.parents[4]
SHIPPED = YAML(typ="safe").load((ROOT / PARAMS).read_text(encoding="utf-8"))
SECTIONS = [value for value in vars(schema).values() if isinstance(value, type) and issubclass(value, Section)]


def is_valid(raw):
    try:
        Params.model_validate(raw)
    except ValidationError:
        return False
    return True


def changed(key, value):
    raw = copy.deepcopy(SHIPPED)
    section, name = key.split(".")
    raw[section][name] = value
    return raw


VALID = [(key, value) for key, values in VALUES.items() for value in values if is_valid(changed(key, value))]


def types(value):
    return [types(item) for item in value] if isinstance(value, list) else type(value)


def check_unchanged(raw):
    """Equal values; an int may only become the equal float, where the key takes one."""
    dumped = Params.model_validate(copy.deepcopy(raw)).model_dump()
    assert dumped == raw
    for section, values in raw.items():
        for key, value in values.items():
            expected = float if Params.model_fields[section].annotation.model_fields[key].annotation is float else None
            assert types(dumped[section][key]) in (types(value), expected)


def test_the_shipped_values_are_unchanged():
    check_unchanged(SHIPPED)


@given(st.lists(st.sampled_from(VALID), min_size=1, max_size=6))
def test_valid_values_are_unchanged(changes):
    raw = copy.deepcopy(SHIPPED)
    for key, value in changes:
        section, name = key.split(".")
        raw[section][name] = value
    if is_valid(raw):
        check_unchanged(raw)


@given(
    st.fixed_dictionaries(
        {
            "learning_rate": st.floats(5e-324, 1e300),
            "weight_decay": st.floats(0, 1e300),
            "seed": st.integers(0, 2**63 - 1),
            "n_steps": st.integers(1000, 10**8),
            "decay_to": st.floats(0, 1) | st.integers(0, 1),
        }
    ),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=64),
    st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), min_size=1),
)
def test_any_valid_number_and_text_is_unchanged(training, sentence, prompts):
    raw = copy.deepcopy(SHIPPED)
    raw["train_gpt"] |= training
    raw["evaluate"]["attention_sentence"] = sentence
    raw["sample"]["prompts"] = prompts
    check_unchanged(raw)


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section.__name__)
def test_a_section_defines_nothing_but_fields_and_validators(section):
    assert all(field.is_required() for field in section.model_fields.values())
    assert not section.model_computed_fields
    own = {name: value for name, value in vars(section).items() if name not in vars(BaseModel)}
    validators = set(section.__pydantic_decorators__.model_validators)
    assert not section.__pydantic_decorators__.field_serializers
    assert not section.__pydantic_decorators__.model_serializers
    others = {name for name in own if not name.startswith("__") and name not in validators}
    assert others <= {"_abc_impl"}
    assert not any(isinstance(value, property | PydanticDescriptorProxy) for value in own.values())


@pytest.mark.parametrize(
    ("module", "name", "table"),
    [
        ("models/transformer.py", "ACTIVATIONS", ACTIVATIONS),
        ("models/transformer.py", "NORMS", NORMS),
        ("models/transformer.py", "POSITIONS", POSITIONS),
        ("models/transformer.py", "PROJ_INITS", PROJ_INITS),
        ("training/optimizers/__init__.py", "OPTIMIZERS", OPTIMIZERS),
        ("tokenizers/__init__.py", "TOKENIZERS", TOKENIZERS),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_choices_are_the_keys_of_the_imported_table(module, name, table):
    assert choices.keys_of(module, name) == tuple(table)


def test_the_rule_sets_are_the_files_of_the_rules_folder_and_three_words():
    assert set(choices.rule_sets()) == {file.stem for file in RULES.iterdir()} | {"auto", "none", "file"}


def test_these_tests_have_a_valid_value_of_every_key():
    # the fractions of split must sum to 1, so no single one can be changed
    assert {key for key, _ in VALID} >= VALUES.keys() - {"download.sha256", "split.train", "split.val", "split.test"}
    assert LARGEST.keys() <= VALUES.keys()
