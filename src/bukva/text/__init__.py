"""Text as ids: tokenizers, prompts, collections of works, the splits on disk."""
