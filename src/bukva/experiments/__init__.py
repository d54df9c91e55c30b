"""What git and DVC know of experiments: names, results, seed groups, queue; nothing of it changes the checkout.

Everything is read from the files that git and DVC write, because DVC's own objects take longer than a whole comparison
may (results.py has the times).

    git.py         files of a commit
    revisions.py   names to commits
    lock.py        dvc.lock: what each stage was a function of
    present.py     the same of dvc.yaml and params.yaml, and whether dvc.lock agrees
    digests.py     DVC's digests of files and folders
    cache.py       files of outputs in DVC's cache
    commands.py    commands of DVC that an error proposes
    results.py     the result of one revision
    states.py      experiments without a result: failed, queued, running, interrupted
    groups.py      experiments that differ in seeds only
    noise.py       how much seeds scatter: the file that git tracks
    seeds.py       queue the missing seeds
    looks.py       how often test scores were shown
    cost.py        parameters, characters and seconds of a training
    comparable.py  do two scores measure the same
    comparison.py  is B better than A
    leaderboard.py all experiments by val
"""
