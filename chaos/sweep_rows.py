"""The faults of many experiments on many machines."""

from chaos import kill_trials, network
from chaos.row import Row

SWEEP_ROWS = (
    Row(
        "sweep",
        "a sweep on one machine: kill -9 of a trial's process, and of the driver",
        "`bukva sweep run` with two seeds, and the same command again; the results equal those of DVC's queue, and "
        "MLflow has each training once",
        kill_trials.kill_sweep,
        2,
    ),
    Row(
        "sweep-pruned",
        "a trial that a search has stopped is continued",
        "a search over two learning rates, one of them far too small; then `bukva sweep run` with the settings of the "
        "stopped trial, which resumes",
        kill_trials.prune,
        2,
    ),
    Row(
        "sweep-machine",
        "a machine of a Ray cluster is lost during a training",
        "kill -9 of all its processes; another machine, without any file of the trial, gets checkpoint and journal "
        "from the storage, and resumes",
        kill_trials.lose_machine,
        3,
    ),
    Row(
        "sweep-silent",
        "a machine stops responding, and returns after another one has finished its trial",
        "kill -STOP of all its processes, then kill -CONT; the result at the origin stays, and MLflow has each point "
        "once",
        kill_trials.silence_machine,
        2,
    ),
    Row(
        "sweep-away",
        "the origin, the DVC remote or the storage is unavailable",
        "a file takes the place of its folder, from a checkpoint on until no stage trains; then the same command again",
        kill_trials.take_away,
        3,
    ),
    Row(
        "sweep-head",
        "the head of a Ray cluster is killed",
        "kill -9 of its server; the driver ends; then the head is started, and the same command run again",
        kill_trials.kill_head,
        2,
    ),
    Row(
        "sweep-card",
        "the network card of a machine of a Ray cluster goes down during a training",
        "three network namespaces (needs root; otherwise left out); Ray declares the machine dead, and another one "
        "takes the trial; the first machine still reaches the origin, so either may finish first; then the card goes "
        "up again",
        kill_trials.take_card_down,
        2,
        is_possible=network.is_possible,
    ),
)
