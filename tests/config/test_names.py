"""Test that the valid values in bukva.config.names match the tables in the code."""

import pytest

from bukva.config import names
from bukva.corpus.sources.formats import encodings
from bukva.models import gpt
from bukva.text import tokenizers
from bukva.training import optimizers

TABLES = [
    (encodings, "ENCODINGS"),
    (tokenizers, "TOKENIZERS"),
    (gpt, "NORMS"),
    (gpt, "ACTIVATIONS"),
    (optimizers, "OPTIMIZERS"),
]


@pytest.mark.parametrize(("module", "table"), TABLES, ids=[table for _, table in TABLES])
def test_the_names_are_the_keys_of_the_table(module, table):
    assert getattr(names, table) == tuple(getattr(module, table))


def test_every_tuple_of_names_is_compared():
    assert {name for name in vars(names) if name.isupper()} == {table for _, table in TABLES}
