"""Experiment tracking: each stage run is recorded in local files, and MLflow displays them.

A stage writes its results to a journal, a local file, and never imports mlflow (see journal.py). A separate process
sends journals to an MLflow store, which is a server or a database (see sync.py). This process runs during a training,
in the last stage of the pipeline (publish.py), and whenever a user runs `bukva sync`.

Sending a journal again adds nothing. So if a store was unreachable, deleted or replaced, the next process sends
everything that is missing.
"""
