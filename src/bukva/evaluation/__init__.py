"""Score trained models on held-out text."""
