"""Score baselines and trained models on held-out text, and generate text."""
