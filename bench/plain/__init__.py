"""Plain implementations: correct, straightforward and not optimized. Only the benchmarks use them."""
