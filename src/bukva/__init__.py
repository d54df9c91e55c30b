"""bukva: honest experiments with character-level language models.

Folders follow the data: text becomes ids, models learn from ids, evaluation scores models, the report shows it.
Importing bukva does nothing and costs nothing. Imports point down; tests/test_layers.py has the layers and checks them.
"""
