"""Studies of what the attention and the n-grams of a trained GPT do, as numbers and charts."""
