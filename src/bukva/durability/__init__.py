"""A killed training loses seconds, not hours: `restore`, `save` and `finish` (bukva.durability.training).

A training saves a checkpoint every BUKVA_CHECKPOINT_SECONDS, and when SIGINT or SIGTERM requests a stop. The same
command, given again, restores the last good one and ends in the same bytes as an uninterrupted training. A checkpoint
is found by the fingerprint of everything that the result depends on (bukva.project.fingerprints): a training whose
parameters, text or code have changed finds none and reports what has changed. Checkpoints are outside of DVC's outputs,
because DVC deletes the outputs of a stage before it runs it:

    <project root>/.bukva/checkpoints/<stage>-<fingerprint>/
        <step>-<digest of the file>.safetensors     the last two
        fingerprint.json                            to report what has changed
        lock                                        held by the process that writes here

A finished training keeps its last checkpoint until dvc.lock has its outputs: if it is killed before that, DVC deletes
the outputs and runs the stage again. A small process waits for this (bukva.durability.cleanup), and the stages after a
training remove what it could not. A stage also stops when the DVC that runs it is gone (bukva.core.processes).

    training.py     restore, save, finish: the callback of the training loop
    checkpoints.py  the checkpoints of one training on disk
    packing.py      nested states as safetensors
    signals.py      SIGINT and SIGTERM
    parent.py       the DVC that runs this stage
    cleanup.py      when checkpoints are removed
"""
