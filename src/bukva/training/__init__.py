"""The training loop and its parts. Read run.py first: it contains the loop."""
