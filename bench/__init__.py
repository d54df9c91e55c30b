"""Benchmarks: bukva and a plain implementation of the same task, measured in turn (python -m bench).

No test measures time.
"""
