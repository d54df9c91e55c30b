"""The models. Read attention.py, then gpt.py; bigram.py is the smallest."""
