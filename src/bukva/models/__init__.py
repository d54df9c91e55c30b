"""The models. Read attention.py, then transformer.py, then gpt.py; bigram.py is the smallest."""
