"""Read and change the DVC project: its stages, recorded results, experiments, cache and baseline."""
