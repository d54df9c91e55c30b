"""Experiment tracking: every stage execution is recorded in local files, and MLflow displays these files.

A stage writes a journal (journal.py) and never imports mlflow. A separate process sends journals to an MLflow store
(sync.py): during a training, in the last stage (publish.py), and on `bukva sync`. Sending a journal again changes
nothing, so the next call completes a store that was unreachable, deleted or replaced.
"""
