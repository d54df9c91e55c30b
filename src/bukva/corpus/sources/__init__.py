"""Read works of many file types from folders, archives, URLs and Hugging Face datasets."""
