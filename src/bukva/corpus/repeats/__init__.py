"""Find text that occurs in two works, or both in the training split and in held-out text."""
