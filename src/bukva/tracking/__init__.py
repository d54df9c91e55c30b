"""What happened, in files, and shown in MLflow.

The files are the record; MLflow is a view of it. A stage writes a journal (journal.py) and never imports mlflow.
Another process brings journals into an MLflow store (sync.py): beside a training (__main__.py), in the last stage
(publish.py), and on `bukva sync`. Filling a store twice changes nothing, so one that was unreachable, deleted or new is
completed by filling it again.

    experiment.py   the experiment that a stage belongs to: name, commit, parameters, text
    journal.py      events on disk: written by stages, read while they grow
    sync.py         journals into MLflow
    models.py       trained models in MLflow: logged, scored, registered, fetched
    publish.py      what stage publish does: journals of restored stages, lineage
    ui.py           MLflow's server, and the charts of all GPTs
"""
