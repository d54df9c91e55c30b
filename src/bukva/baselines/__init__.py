"""Score baselines that are not trained by gradient descent: counted n-grams and compressors."""
