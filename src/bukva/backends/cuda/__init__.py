"""The backend for GPUs: a whole update as one CUDA graph, and compiled losses in long training runs."""
