"""The scores of trained models."""
