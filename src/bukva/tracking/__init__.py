"""What happened, kept in files and shown in MLflow.

Files are the record; MLflow is a view of it. A stage writes a journal (journal.py) and never imports mlflow.
Another process reads journals and fills an MLflow store from them (sync.py): live beside a training
(follow.py), after the last stage (publish.py), or whenever someone types `make sync`. Filling again changes
nothing, so a store that was down, deleted or is new is completed by filling it once more.
"""
