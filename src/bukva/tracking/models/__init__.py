"""Trained models in MLflow: what one carries (package, saving), where it is logged, how it is registered."""
