"""Find text that occurs both in the training split and in held-out text, and cut it out of the training split."""
