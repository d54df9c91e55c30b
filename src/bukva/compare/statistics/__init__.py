"""What a difference between two experiments is worth: intervals over the text, seeds, sweeps, and their wording.

Sums per unit in, verdicts out; no files, no models. Everywhere a difference is B minus A in bits per character, so a
negative one means that B is better. docs/comparing.md has the method, its sources and its measured error rates.
"""
