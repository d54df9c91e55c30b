"""What attention and counting do in a trained model: every figure of the lecture notes, and who predicted what."""
