"""The baselines: what one writes first. Correct, slow where the plain way is slow, and used by the benchmarks alone."""
