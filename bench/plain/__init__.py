"""Plain implementations, as one writes them first: correct, not optimised, used by the benchmarks only."""
