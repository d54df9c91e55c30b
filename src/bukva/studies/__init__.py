"""Studies of a trained GPT. They measure what its attention and its n-grams do, and draw charts of the results."""
