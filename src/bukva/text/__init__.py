"""Read and write works, splits and scores, convert text to ids and back, and choose prompts for the models."""
