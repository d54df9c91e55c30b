"""Many experiments at once, on the cores and GPUs of this machine or on several machines: `bukva sweep`.

Ray Tune gives trials to machines, repeats those that were lost, stops those that fall behind, and keeps its state and
the checkpoints in a storage that all machines reach. What a trial is stays DVC's: `dvc exp run` in a clone at the
commit of the sweep (a slot). Its result is the git reference of the experiment, which goes to the origin last, so that
an experiment is finished if and only if the origin has it. Whoever repeats a finished one does no harm.

    commands.py   the command line
    trials.py     what is to run: a sweep and its trials
    search.py     what a search may choose, and Optuna, which chooses
    engine.py     Ray: on this machine, or a cluster; one sweep on it
    table.py      the table of trials, which `bukva sweep status` shows later
    live.py       the same while they run
    trial.py      one trial: run DVC, report, push
    slot.py       the clone that a trial runs in
    transfer.py   what goes from one machine to another in a checkpoint of Tune
    origin.py     the repository that all machines share

No stage imports this package.
"""
