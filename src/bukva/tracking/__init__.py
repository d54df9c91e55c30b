"""Experiment tracking: every stage execution is recorded in local files, and MLflow displays these files.

A stage writes a journal (journal.py) and never imports mlflow. A separate process (sync.py) sends journals to an MLflow
store: during a training, in the last stage (publish.py), and when a user runs `bukva sync`. Sending a journal again
changes nothing. So if a store was unreachable, deleted or replaced, the next process sends everything that is missing.
"""
