"""Counting: the n-grams of train, and the Kneser-Ney model that they make."""
