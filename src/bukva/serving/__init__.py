"""Trained models for people who write with them."""
