"""What happened, in files, and shown in MLflow.

The files are the record; MLflow is a view of it. A stage writes a journal (journal.py) and never imports mlflow.
Another process brings journals into an MLflow store (sync.py): beside a training, in the last stage (publish.py), and
on `bukva sync`. Filling a store twice changes nothing, so one that was unreachable, deleted or new is
completed by filling it again.
"""
