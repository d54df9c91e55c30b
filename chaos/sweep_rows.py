"""The faults of sweeps, on one machine and on a cluster."""

from chaos import kill_trials, network
from chaos.row import Row

SWEEP_ROWS = (
    Row(
        "sweep",
        "a sweep on one machine: `kill -9` of the process of a trial, and of the driver",
        "`bukva sweep run` with two seeds; then the same command again; the results must equal those of DVC's queue, "
        "and MLflow must have each training once",
        kill_trials.kill_sweep,
        2,
    ),
    Row(
        "sweep-pruned",
        "a trial that a search stops, and that is continued later",
        "a search over two learning rates, one of which is far too small; then `bukva sweep run` with this learning "
        "rate must resume the training",
        kill_trials.prune,
        2,
    ),
    Row(
        "sweep-machine",
        "a machine of a cluster that is lost while it trains",
        "`kill -9` of all its processes; another machine, which has no files of the trial, must get the checkpoint and "
        "the journal from the storage and resume the trial",
        kill_trials.lose_machine,
        3,
    ),
    Row(
        "sweep-silent",
        "a machine that does not respond until another machine has finished its trial",
        "`kill -STOP` of all its processes, and later `kill -CONT`; the result at the origin must stay, and MLflow "
        "must have each point once",
        kill_trials.silence_machine,
        2,
    ),
    Row(
        "sweep-away",
        "the origin, the DVC remote or the storage is unavailable",
        "after a checkpoint, a file takes the place of its folder until no stage trains; then the same command again",
        kill_trials.take_away,
        3,
    ),
    Row(
        "sweep-head",
        "`kill -9` of the head of a Ray cluster",
        "its server process is killed; the driver must end; then the cluster and the same command are started again",
        kill_trials.kill_head,
        2,
    ),
    Row(
        "sweep-card",
        "the network card of a machine of a Ray cluster goes down while the machine trains",
        "three network namespaces (skipped without root); Ray must declare the machine dead, and another must take "
        "over the trial; the first machine can still reach the origin, so either may finish first; then the card is "
        "brought up again",
        kill_trials.take_card_down,
        2,
        is_possible=network.is_possible,
    ),
)
