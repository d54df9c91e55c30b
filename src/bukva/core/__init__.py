"""Utilities for all other packages: files, errors, progress bars, processes, properties of the machine."""
