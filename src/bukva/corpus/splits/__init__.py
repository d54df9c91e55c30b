"""Divide the characters of a corpus into train, val and test, encode the characters, and describe each split."""
