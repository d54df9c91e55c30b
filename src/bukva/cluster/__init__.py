"""Many experiments at once, on the cores and GPUs of this machine or on several machines: python -m bukva.cluster.

A driver gives trials to workers, and a worker runs one trial with DVC in a clone of its own (a slot). The commit is the
identity: a slot checks out the commit of the driver, and its result is the git reference that `dvc exp run` makes. The
worker pushes that reference last, so an experiment is finished if and only if the origin has it; whoever repeats a
finished one does no harm. A driver has nothing to lose: started again, it asks the origin what is left.

    trials.py     the trials of a sweep
    origin.py     the repository that all machines share
    job.py        what a worker is told, and what it answers
    slot.py       the clone that a worker runs in
    work.py       one trial: run, watch, stop, push
    running.py    DVC below a worker
    watch.py      the progress of a trial, from its journals
    together.py   the share of a machine in a training on several
    remote.py     files that all machines reach, on the DVC remote
    carry.py      checkpoints and journals between machines
    sender.py     sends them while a training goes on
    runs.py       DVC's run cache between machines
    processes.py  workers on this machine
    ray_engine.py workers on the machines of a Ray cluster
    ray_worker.py one of them
    ray_access.py what reaches a Ray cluster: its address, its token
    group.py      workers that train one model together
    machines.py   makes a machine part of such a cluster
    driver.py     gives trials to workers, and repeats those that were lost
    board.py      the state of all trials, in files
    table.py      the same as a table in the terminal
    search.py     chooses trials with Optuna
    space.py      from what it chooses
    fresh.py      its winner on fresh seeds
    slurm.py      the same trials as an array of jobs of Slurm
    pull.py       results of other machines
    options.py    options that several commands have

No stage imports this package.
"""
