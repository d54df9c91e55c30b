"""Trained models behind Python, HTTP and MLflow interfaces."""
