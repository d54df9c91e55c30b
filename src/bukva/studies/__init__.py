"""Studies of a trained GPT: what its attention and its n-grams do, as numbers and charts."""
