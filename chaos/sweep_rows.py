"""The faults of sweeps, on one machine and on a cluster."""

from chaos import kill_trials, network
from chaos.row import Row

SWEEP_ROWS = (
    Row(
        "sweep",
        "a sweep on this machine: kill -9 of an actor, and of the driver",
        "`bukva sweep run` with two seeds; then the same command again: the results equal the results of DVC's queue, "
        "and MLflow has each training once",
        kill_trials.kill_sweep,
        2,
    ),
    Row(
        "sweep-pruned",
        "a trial is stopped by a search, then continued",
        "a search over two learning rates, one of which is far too small; then `bukva sweep run` with this learning "
        "rate, which resumes the training",
        kill_trials.prune,
        2,
    ),
    Row(
        "sweep-machine",
        "a machine of a cluster is lost while it trains",
        "kill -9 of all its processes; another machine, which has no files of the trial, gets checkpoint and journal "
        "from the storage, and resumes",
        kill_trials.lose_machine,
        3,
    ),
    Row(
        "sweep-silent",
        "a machine does not answer, and comes back after another machine has finished its trial",
        "kill -STOP of all its processes, then kill -CONT; the result at the origin stays, and MLflow has each point "
        "once",
        kill_trials.silence_machine,
        2,
    ),
    Row(
        "sweep-away",
        "the origin, the DVC remote, or the storage is unavailable",
        "after a checkpoint, a file replaces its folder until no stage trains; then the same command again",
        kill_trials.take_away,
        3,
    ),
    Row(
        "sweep-head",
        "the head of a Ray cluster is killed",
        "kill -9 of its server; the driver ends; then the cluster is restarted and the same command is repeated",
        kill_trials.kill_head,
        2,
    ),
    Row(
        "sweep-card",
        "the network card of a machine of a Ray cluster goes down while it trains",
        "three network namespaces (skipped without root); Ray declares the machine dead, and another machine takes "
        "over the trial; the first machine can still reach the origin, so either may finish first; then the card is "
        "brought up again",
        kill_trials.take_card_down,
        2,
        is_possible=network.is_possible,
    ),
)
