"""Implement the command `bukva`. The stage scripts use this package to start, and to report errors and progress."""
