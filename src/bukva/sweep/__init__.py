"""Run many experiments in parallel, on one machine or on a cluster: `bukva sweep`.

Ray Tune schedules the trials. It assigns trials to machines, restarts lost trials and stops trials that fall behind.
The state of Tune and the checkpoints are in a storage that all machines can access. The process of `bukva sweep`, which
controls the sweep, is called the driver.

Each trial is an experiment of DVC: `dvc exp run` in a clone (a slot) at the commit of the sweep. The result of a trial
is the git reference of the experiment. This reference is pushed to the origin, the repository that all machines share,
after everything else. So an experiment is finished if and only if the origin has its reference. Repeating a finished
trial is harmless.

    commands.py   command line
    trials.py     sweeps, trials and grids
    search.py     search space, Optuna's sampler and the pruning rule
    engine.py     start Ray or connect to a cluster, and run a sweep there
    table.py      table of trials for `bukva sweep status`
    live.py       table of trials while the sweep runs
    trial.py      one trial: run DVC, report, push
    slot.py       clones in which trials run
    transfer.py   files that Tune's checkpoints carry between machines
    origin.py     the repository that all machines share

No stage imports this package.
"""
