"""Read and write works and splits, convert text to ids and back, and choose prompts for the models."""
