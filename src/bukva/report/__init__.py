"""Figures, tables and sentences about results."""
