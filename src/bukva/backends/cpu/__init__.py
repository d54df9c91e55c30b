"""The backend for CPUs: fused sublayers for training, a decoder for single positions, one process for each core."""
