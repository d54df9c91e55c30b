"""Run many experiments in parallel, on one machine or on a cluster: `bukva sweep`.

A sweep consists of trials. Each trial is a DVC experiment, which `dvc exp run` starts from the commit of the sweep. A
trial runs in a git clone of the project, called a slot.

Ray Tune assigns trials to machines and restarts lost trials. In a search, Tune also stops trials that fall behind. Tune
keeps its state and the checkpoints of trials in the storage, a folder or bucket that all machines can access. The
process of `bukva sweep` controls the sweep and is called the driver.

The result of a trial is the git reference of its experiment. After all other outputs are stored, the reference is
pushed to the origin, the git repository that all machines share. So a trial is finished if and only if the origin has
its reference. Repeating a finished trial is harmless.

    commands.py   commands of `bukva sweep`
    trials.py     sweeps, trials and grids
    search.py     search space, Optuna's sampler and the pruning rule
    engine.py     start Ray or connect to a cluster, and run a sweep there
    table.py      table of trials for `bukva sweep status`
    live.py       table of trials while the sweep runs
    trial.py      one trial: run DVC, report progress, push the result
    slot.py       git clones in which trials run
    transfer.py   files that Tune's checkpoints carry between machines
    origin.py     the git repository that all machines share

No stage of the pipeline imports this package.
"""
