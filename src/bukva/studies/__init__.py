"""Measure what the attention of a trained GPT does, and draw charts of it."""
