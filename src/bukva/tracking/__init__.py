"""Experiment tracking: stages write their results to local files, from which MLflow is filled.

A stage writes a journal and never imports mlflow (journal.py). Another process sends journals to an MLflow server or
database (sync.py): during a training, at the end of the pipeline (publish.py), and in `bukva sync`.
"""
