"""Clean the text of works before models are trained on it, and count what is removed."""
