"""Checkpoints and resume: an interrupted training run loses seconds, not hours.

Training saves a checkpoint every BUKVA_CHECKPOINT_SECONDS, and when SIGINT or SIGTERM requests a stop. If the same
command runs again, it loads the latest good checkpoint and ends in the same bytes as an uninterrupted run.

The name of the checkpoint folder contains a fingerprint of everything that the result depends on
(bukva.project.stages). If parameters, text or code have changed, there is no folder with the new fingerprint, and
training reports the change. Checkpoints are not DVC outputs, because DVC deletes the outputs of a stage before it runs
the stage:

    <project root>/.bukva/checkpoints/<stage>-<fingerprint>/
        <step>-<digest of the file>.safetensors     the last two checkpoints
        fingerprint.json                            the fingerprinted values, to report which of them have changed
        done.json                                   present when the run has finished
        lock                                        held by the process that writes checkpoints

A finished run keeps its last checkpoint until the next run of its stage starts. If DVC is killed before it has recorded
the outputs in dvc.lock, it later deletes the outputs and runs the stage again. A stage also stops when the DVC process
that runs it has ended (bukva.core.processes).
"""
