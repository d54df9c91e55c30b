"""What attention does in a model that was trained: every figure of the notes, from the reader's own model."""
