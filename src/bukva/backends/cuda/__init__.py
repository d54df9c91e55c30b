"""Run each update on a GPU as one CUDA graph. Long training runs also compile the loss function."""
