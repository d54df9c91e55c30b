"""Study what the attention and the n-grams of a trained GPT do, in numbers and charts."""
