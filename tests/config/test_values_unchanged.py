"""Config accepts values or rejects them and never changes one; so no stage depends on its code in dvc.yaml."""

import copy

from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel
from pydantic._internal._decorators import PydanticDescriptorProxy

from bukva.config import choices
from bukva.config.load import PARAMS, read_yaml
from bukva.config.schema import Params
from bukva.corpus.cleaning.rule_sets import RULES
from bukva.models.gpt import NGRAMS
from bukva.models.transformer import ACTIVATIONS, NORMS, POSITIONS, PROJ_INITS
from bukva.tokenizers import TOKENIZERS
from bukva.training.optimizers import OPTIMIZERS

SHIPPED = read_yaml(RULES.parents[4] / PARAMS)


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


any_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=64)


@settings(max_examples=25)
@given(
    st.fixed_dictionaries(
        {
            "learning_rate": st.floats(5e-324, 1e300) | st.integers(1, 10**12),
            "seed": st.integers(0, 2**63 - 1),
            "decay_to": st.floats(0, 1) | st.integers(0, 1),
        }
    ),
    any_text,
    st.lists(any_text.filter(bool), min_size=1),
)
def test_any_valid_number_and_text_is_unchanged(training, sentence, prompts):
    check_unchanged(SHIPPED)
    raw = copy.deepcopy(SHIPPED)
    raw["train_gpt"] |= training
    raw["evaluate"]["attention_sentence"] = sentence
    raw["sample"]["prompts"] = prompts
    check_unchanged(raw)


def test_a_section_defines_nothing_but_fields_and_validators():
    for section in [field.annotation for field in Params.model_fields.values()]:
        assert not section.model_computed_fields
        assert not section.__pydantic_decorators__.field_serializers
        assert not section.__pydantic_decorators__.model_serializers
        own = {name: value for name, value in vars(section).items() if name not in vars(BaseModel)}
        validators = set(section.__pydantic_decorators__.model_validators)
        assert {name for name in own if not name.startswith("__") and name not in validators} <= {"_abc_impl"}
        assert not any(isinstance(value, property | PydanticDescriptorProxy) for value in own.values())


def test_the_choices_are_the_keys_of_the_tables_of_the_code_that_they_name():
    tables = [
        ("models/transformer.py", "ACTIVATIONS", ACTIVATIONS),
        ("models/transformer.py", "NORMS", NORMS),
        ("models/transformer.py", "POSITIONS", POSITIONS),
        ("models/transformer.py", "PROJ_INITS", PROJ_INITS),
        ("models/gpt.py", "NGRAMS", NGRAMS),
        ("training/optimizers/__init__.py", "OPTIMIZERS", OPTIMIZERS),
        ("tokenizers/__init__.py", "TOKENIZERS", TOKENIZERS),
    ]
    for module, name, table in tables:
        assert choices.keys_of(module, name) == tuple(table)
    assert set(choices.rule_sets()) == {file.stem for file in RULES.iterdir()} | {"auto", "none", "file"}
