"""What happened, in files, and shown in MLflow.

The files are the record; MLflow is a view of it. A stage writes a journal (journal.py, writing.py) and never imports
mlflow. Another process reads journals (reading.py) and fills an MLflow store from them (sync.py): during a training
(follow.py), in the last stage (publish.py), and on `bukva sync`. Filling a store twice changes nothing, so one that was
unreachable, deleted or new is completed by filling it again.

A journal is a folder for one execution of a stage:

    <project root>/.bukva/journal/<experiment>/<stage>-<NNN>/
        journal.jsonl    one record (JSON) per line, in order: start, then metrics, artifact, tags, at last end
        adopted.json     the experiment that it belongs to now, if another one continued it (continuing.py)
        artifacts/       hard links to what the stage wrote

Beside the journals of an experiment, notes.json has what was said about it later: tags and sections (notes.py).

Artifacts are links because a queued experiment runs in a folder that DVC deletes; links are safe because bukva
replaces files and never writes into them. Every record has a time `at`, in milliseconds since 1970: only journals
contain times, DVC's outputs contain none.

The process that writes a journal keeps its file locked. The system releases the lock however the process ends, so a
journal without a lock and without an end record belongs to a killed process.
"""
