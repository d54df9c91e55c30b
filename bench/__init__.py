"""Benchmarks that compare bukva with a plain implementation of the same task: `python -m bench`.

No test measures time.
"""
