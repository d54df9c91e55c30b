"""Compute confidence intervals and verdicts for the difference between two experiments, A and B.

The functions take the bits of each unit (a work or a segment of the text) and return verdicts. They read no files and
need no models. Every difference is B minus A in bits per character, so a negative difference means that B is better.
docs/comparing-method.md describes the method, its sources and its measured error rates.
"""
