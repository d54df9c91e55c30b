"""The faults of many experiments on many machines."""

from chaos import kill_ray, kill_trials, network
from chaos.row import Row

CLUSTER_ROWS = (
    Row(
        "cluster",
        "a sweep on this machine: kill -9 of a worker, and of the driver",
        "`bukva sweep run` with two seeds; then the same command again: the results are those of DVC's queue, and "
        "MLflow has each training once",
        kill_trials.kill_sweep,
        2,
    ),
    Row(
        "cluster-machine",
        "a machine of a cluster is lost while it trains",
        "kill -9 of all its processes; another machine, which has nothing of it, gets checkpoint and journal from the "
        "remote, and resumes",
        kill_trials.lose_machine,
        3,
    ),
    Row(
        "cluster-silent",
        "a machine does not answer, and comes back after another one has finished its trial",
        "kill -STOP of all its processes, then kill -CONT; the result at the origin stays, MLflow has each point once",
        kill_trials.silence_machine,
        3,
    ),
    Row(
        "cluster-away",
        "the origin, or the remote, is away when a result is sent",
        "a file takes the place of its folder while a trial trains, until the worker has said that it tries again",
        kill_trials.take_away,
        4,
    ),
    Row(
        "cluster-mlflow",
        "MLflow is away for a whole trial",
        "MLFLOW_TRACKING_URI is a port that nobody listens to; then its journal is fetched, and bukva sync",
        kill_trials.hide_mlflow,
        2,
    ),
    Row(
        "cluster-empty-mlflow",
        "two machines start on an empty MLflow",
        "two trials at the same time, and a server without an experiment; each is in MLflow once",
        kill_trials.start_on_empty_mlflow,
        3,
    ),
    Row(
        "cluster-pruned",
        "a trial is pruned, then continued",
        "SIGTERM of its worker, which ends with 143 and leaves no result; then the same trial on this machine, or on "
        "another one",
        kill_trials.prune,
        4,
    ),
    Row(
        "cluster-group",
        "two machines train one model, and one is lost",
        "kill -9 of all processes of the first, or of the second; the other one ends with 75; both are started again",
        kill_trials.break_group,
        4,
    ),
    Row(
        "cluster-head",
        "the head of a Ray cluster is killed",
        "kill -9 of its server; the driver ends; the head is started, and the same command given again",
        kill_ray.kill_head,
        2,
    ),
    Row(
        "cluster-card",
        "the network card of a machine of a Ray cluster goes down while it trains",
        "three network namespaces (needs root, else left out); Ray declares the machine dead, and another one takes "
        "the trial; the first still reaches the origin, so that either may be first; then the card goes up again",
        kill_ray.take_card_down,
        3,
        is_possible=network.is_possible,
    ),
)
