"""Train models and generate text faster on a CPU, with compiled loops. Training uses one process for each core."""
