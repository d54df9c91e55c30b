"""The training loop and its parts. Read run.py first, which has the loop."""
