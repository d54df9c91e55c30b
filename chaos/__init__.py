"""Fault injection: the pipeline is killed and broken on purpose, in a small project (python -m chaos)."""
