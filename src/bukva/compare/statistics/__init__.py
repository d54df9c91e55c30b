"""Compute confidence intervals and verdicts for the difference between two experiments, A and B.

Every difference is B minus A in bits per character, so a negative difference means that B is better. No function reads
files or needs a model. docs/comparing-method.md describes the method, its sources and its measured error rates.
"""
