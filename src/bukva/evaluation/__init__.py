"""Score n-gram counts and compressors on held-out text, and generate text."""
