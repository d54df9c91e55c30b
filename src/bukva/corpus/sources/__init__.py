"""Read texts in many file formats from folders, archives, URLs and Hugging Face datasets."""
