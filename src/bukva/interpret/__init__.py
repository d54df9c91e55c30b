"""What attention does in a trained model: every figure of the lecture notes, from the model just trained."""
