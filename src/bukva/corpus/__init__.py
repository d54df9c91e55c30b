"""Download a corpus, clean its works, find repeated passages and split the text, all without importing torch."""
