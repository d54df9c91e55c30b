"""GPUs: a whole update as one CUDA graph, and compiled losses where a training is long enough."""
