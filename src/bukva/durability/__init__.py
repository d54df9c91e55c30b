"""What accompanies a training and cannot change its result: checkpoints, signals, the progress bar, logged metrics.

A training saves a checkpoint every 30 seconds (BUKVA_CHECKPOINT_SECONDS), and when SIGINT or SIGTERM requests a stop.
If the same command runs again, training continues from the latest undamaged checkpoint, and the trained model has the
same bytes as after an uninterrupted run.

    <project root>/.bukva/checkpoints/<stage>-<fingerprint>/
        <step>-<digest of the file>.pt     the last two checkpoints
        fingerprint.json                   everything that the result depends on, to report what has changed
        done.json                          marks a run that has finished
        lock                               locked by the process that writes checkpoints

Checkpoints are not DVC outputs, because DVC deletes the outputs of a stage before it runs the stage. Those of a
finished run are kept until the next run of its stage starts, because DVC may be killed before it has recorded the
outputs in dvc.lock. Then the next `dvc repro` runs the stage again, which continues from the last checkpoint.
"""
