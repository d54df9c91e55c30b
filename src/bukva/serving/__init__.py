"""Trained models for people who write with them, and for other programs."""
