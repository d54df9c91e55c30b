"""The anatomy of the loss: which characters cost how many bits, from the scores of every character. No torch."""
