"""What the stage scripts have in common: how they are started, and how both models are trained."""
