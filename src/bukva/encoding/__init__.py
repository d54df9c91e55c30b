"""Text to ids: the works of a collection, and the prompts of a person."""
