"""Text and ids: collections of works, tokenizers, splits on disk, and prompts."""
