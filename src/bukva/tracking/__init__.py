"""Experiment tracking: stages record their executions in local files, and MLflow is filled from these and DVC's cache.

A stage never imports mlflow (record.py). Another process fills an MLflow server or database (sync.py): during a
training, at the end of the pipeline (publish.py), and in `bukva sync`.
"""
