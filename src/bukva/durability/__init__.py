"""Save checkpoints and resume training from them, so that an interrupted training run loses seconds and not hours.

Training saves a checkpoint every 30 seconds (BUKVA_CHECKPOINT_SECONDS), and when SIGINT or SIGTERM requests a stop. If
the same command runs again, training continues from the latest undamaged checkpoint. The trained model has the same
bytes as after an uninterrupted run.

The name of a checkpoint folder contains a fingerprint: a digest of everything that the result depends on
(bukva.project.stages). If parameters, text or code have changed, no folder has the new fingerprint. Training then
starts at step 0 and reports what has changed.

    <project root>/.bukva/checkpoints/<stage>-<fingerprint>/
        <step>-<digest of the file>.safetensors     the last two checkpoints
        fingerprint.json                            the values in the fingerprint, to report which have changed
        done.json                                   marks a run that has finished
        lock                                        locked by the process that writes checkpoints

Checkpoints are not DVC outputs, because DVC deletes the outputs of a stage before it runs the stage.

The checkpoints of a finished run are kept until the next run of its stage starts, because DVC may be killed before it
has recorded the outputs in dvc.lock. In this case, the next `dvc repro` deletes the outputs and runs the stage again.
The stage then continues from the last checkpoint. A stage also stops if the DVC process that started it has ended
(bukva.core.processes).
"""
