"""A killed training loses seconds, not hours.

A training saves a checkpoint every BUKVA_CHECKPOINT_SECONDS, and when SIGINT or SIGTERM requests a stop. The same
command, given again, restores the last good one and ends in the same bytes as an uninterrupted training. A checkpoint
is found by the fingerprint of everything that the result depends on (bukva.project.stages): a training whose
parameters, text or code have changed finds none and reports what has changed. Checkpoints are outside of DVC's outputs,
because DVC deletes the outputs of a stage before it runs it:

    <project root>/.bukva/checkpoints/<stage>-<fingerprint>/
        <step>-<digest of the file>.safetensors     the last two
        fingerprint.json                            to report what has changed
        done.json                                   of a finished training
        lock                                        held by the process that writes here

A finished training keeps its last checkpoint until the next training of its stage starts: if DVC is killed before
dvc.lock has the outputs, it deletes them and runs the stage again. A stage stops when the DVC that runs it is gone
(bukva.core.processes).
"""
