"""Statistics of the difference between two experiments: intervals over texts and seeds, corrections, and wording.

The functions take sums of bits per unit of the text and return verdicts. They read no files and need no models. Every
difference is B minus A in bits per character, so a negative difference means that B is better. docs/comparing-method.md
describes the method, its sources and its measured error rates.
"""
