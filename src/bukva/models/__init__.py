"""Language models. Read attention.py first, then gpt.py. The smallest model is in bigram.py."""
