"""Divide the characters into train, val and test, encode them, and describe each split."""
