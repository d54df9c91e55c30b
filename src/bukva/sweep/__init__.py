"""Run many experiments in parallel, on one machine or on a cluster: `bukva sweep`.

A sweep consists of trials. A trial is a DVC experiment that starts from the commit of the sweep and runs in a clone of
the project. Ray Tune assigns trials to machines and repeats lost ones; in a search, it also stops those that fall
behind. All machines of a cluster mount the folder of the project, with DVC's cache, checkpoints and Tune's state.
"""
