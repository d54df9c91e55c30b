"""Test that the choices in params.yaml are the tables in the code, which import torch and so are not imported there."""

from typing import get_args

import pytest

from bukva.core import schema
from bukva.models import gpt
from bukva.text import tokenizers
from bukva.training import optimizers


@pytest.mark.parametrize(
    ("section", "key", "table"),
    [
        (schema.Tokenize, "kind", tokenizers.TOKENIZERS),
        (schema.Model, "norm", gpt.NORMS),
        (schema.Model, "activation", gpt.ACTIVATIONS),
        (schema.TrainGPT, "optimizer", optimizers.OPTIMIZERS),
    ],
)
def test_the_choices_are_the_keys_of_the_table(section, key, table):
    assert get_args(section.model_fields[key].annotation) == tuple(table)
