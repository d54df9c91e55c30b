"""What attention does in a trained model: every figure of the lecture notes, from the model just trained.

And what counting does in it, for a model with n-grams.
"""
