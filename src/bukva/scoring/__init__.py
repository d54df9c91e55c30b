"""Score the models in overlapping windows, next to the baselines. A try of `bukva judge` may not edit this package."""
