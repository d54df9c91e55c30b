"""Counts of the n-grams of the training split, and Kneser-Ney models that are computed from them."""
