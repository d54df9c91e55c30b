"""Run each update on a GPU as one CUDA graph, with a compiled loss function in long training runs."""
