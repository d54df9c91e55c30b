"""Text that stands in two places: between works, and between train and what is held out."""
