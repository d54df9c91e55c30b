"""Which characters are train, val and test, and what each of them has."""
