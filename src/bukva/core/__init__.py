"""Provide utilities for all other packages: files, errors, progress bars, processes and facts about the machine."""
