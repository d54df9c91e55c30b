"""Train models faster on a CPU with fused sublayers and worker processes, and generate text faster with a decoder."""
