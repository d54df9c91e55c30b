"""A record of each stage execution in files, and MLflow as a view of these files.

A stage writes a journal (journal.py) and never imports mlflow. Another process sends journals to an MLflow store
(sync.py): during a training, in the last stage (publish.py), and on `bukva sync`. Sending twice changes nothing, so a
store that was unreachable, deleted or new gets what it misses the next time.
"""
