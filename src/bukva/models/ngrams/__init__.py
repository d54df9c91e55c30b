"""Count the n-grams of the training split, and compute Kneser-Ney models from the counts."""
