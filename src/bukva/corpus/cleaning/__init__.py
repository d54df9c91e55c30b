"""What is removed from the text of works before a model reads it, and the account of it."""
