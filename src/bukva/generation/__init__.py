"""Generate text with trained models."""
