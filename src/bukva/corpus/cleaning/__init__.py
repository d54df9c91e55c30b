"""Clean the texts of a corpus before models are trained on them, and count what is removed."""
