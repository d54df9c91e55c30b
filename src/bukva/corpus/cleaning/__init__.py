"""Clean the text of works before a model reads it, and count what is removed."""
