"""Compute confidence intervals and verdicts for the difference between two experiments, A and B.

The functions take the loss of A and of B on each unit of a text, and return verdicts. A unit is a work or a segment of
the text. No function reads files or needs a model. Every difference is B minus A in bits per character, so a negative
difference means that B is better. docs/comparing-method.md describes the method, its sources and its measured error
rates.
"""
