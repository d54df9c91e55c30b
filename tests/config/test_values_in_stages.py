"""Whatever params.yaml contains, the stages succeed or reject it in a sentence: no traceback and no hang."""

import itertools
import random
from concurrent.futures import ThreadPoolExecutor

import pytest
from config.stage_server import SECTIONS, STAGES, StageServer, with_changes
from config.values import COMBINATIONS, EVALUATE_COMBINATIONS, FAILED_ONCE, LARGEST, MAY_BE_REJECTED, VALUES

from bukva.base.errors import BukvaError
from bukva.config.load import parse_params
from bukva.config.messages import WAY_BACK

# The stages that a section can reach. The study of attention takes ten times as long as all stages together, so it runs
# only for the section evaluate; the values of other sections that may disturb it are in EVALUATE_COMBINATIONS.
REACHED = {
    "download": ["download", "clean", "tokenize", "split", "train_bigram", "train_gpt", "evaluate", "sample"],
    "clean": ["clean", "tokenize", "split", "train_bigram", "train_gpt", "evaluate", "sample"],
    "tokenize": ["tokenize", "split", "train_bigram", "train_gpt", "evaluate", "sample"],
    "split": ["tokenize", "split", "train_bigram", "train_gpt", "evaluate", "sample"],
    "model": ["split", "train_gpt", "evaluate", "sample"],
    "compute": ["train_bigram", "train_gpt", "evaluate", "sample"],
    "train_bigram": ["train_bigram"],
    "train_gpt": ["train_gpt"],
    "evaluate": ["tokenize", "evaluate", "attention"],
    "sample": ["tokenize", "sample"],
}
# the keys of a group of their own in model, training and sampling sections
NUMERIC = {
    *("learning_rate", "weight_decay", "beta2", "grad_clip", "decay_to", "temperature", "top_p"),
    *("dropout", "ngram_dropout", "network_loss"),
}
# without corpus url or huggingface
UNREAD = {"download.url", "download.sha256", "download.dataset", "download.revision", "download.files"}


def rejection(changes):
    """The sentence of the schema, or nothing for valid parameters."""
    try:
        parse_params(with_changes(changes), "params.yaml")
    except BukvaError as error:
        return str(error)
    return ""


def stages_of(changes):
    reached = set(itertools.chain(*(REACHED[name.split(".")[0]] for name in changes)))
    return [stage for stage in STAGES if stage in reached]


def is_runnable(key, value):
    return key not in UNREAD and not rejection({key: value}) and (key not in LARGEST or value <= LARGEST[key])


def may_be_rejected(key, value):
    return key in MAY_BE_REJECTED and MAY_BE_REJECTED[key](value)


ACCEPTED = [
    (key, value) for key, values in VALUES.items() for value in values
    if is_runnable(key, value) and {key: value} not in [changes for changes, _ in FAILED_ONCE]
]  # fmt: skip
ALONE = [{key: value} for key, value in ACCEPTED if may_be_rejected(key, value)]
TOGETHER = [(key, value) for key, value in ACCEPTED if not may_be_rejected(key, value)]


def one_value_per_group():
    """Cases that together contain every value of TOGETHER except evaluate's, each with at most one per group of keys.

    A section is read by a stage of its own, and its numbers of the optimizer, the loss or the sampler do not depend on
    its other keys, so one run of all stages tests one value of each. Values that a stage may reject are not here: what
    follows a rejection is not tested.
    """
    groups = {}
    for key, value in TOGETHER:
        section, name = key.split(".")
        groups.setdefault((section, name in NUMERIC), []).append({key: value})
    del groups["evaluate", False]
    for values in itertools.zip_longest(*groups.values(), fillvalue={}):
        yield {key: value for changes in values for key, value in changes.items()}


def several_values(n_cases):
    """Cases of two or three random values of any sections except evaluate; those that the schema accepts."""
    rng = random.Random(0)
    candidates = [(key, value) for key, value in ACCEPTED if not key.startswith("evaluate.")]
    cases = (dict(rng.sample(candidates, rng.choice([2, 3]))) for _ in itertools.count())
    return list(itertools.islice((changes for changes in cases if not rejection(changes)), n_cases))


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Run cases in parallel; returns the outcomes in their order."""
    with StageServer(tmp_path_factory.mktemp("project")) as server, ThreadPoolExecutor(2) as pool:
        yield lambda cases: list(pool.map(lambda changes: server.run(changes, stages_of(changes)), cases))


def check(cases, outcomes):
    """Raise unless every case succeeded or was rejected in a sentence."""
    wrong = [
        (changes, outcome)
        for changes, outcome in zip(cases, outcomes, strict=True)
        if "failed" in outcome or not is_sentence(outcome.get("rejected", "."))
    ]
    assert not wrong, "\n".join(f"{changes}: {outcome}" for changes, outcome in wrong)


def is_sentence(message):
    message = message.removesuffix(WAY_BACK).rstrip("\n")
    return message.isprintable() and len(message) < 2500 and "secret" not in message


# ---- the schema


def test_every_key_has_at_least_twenty_values():
    assert VALUES.keys() == {f"{section}.{key}" for section, keys in SECTIONS.items() for key in keys}
    assert all(len(values) >= 20 for values in VALUES.values())


@pytest.mark.parametrize("key", VALUES)
def test_every_value_is_valid_or_rejected_in_a_sentence(key):
    for value in VALUES[key]:
        message = rejection({key: value})
        if message:
            assert key.split(".")[0] in message
            assert message.endswith(WAY_BACK)
            assert is_sentence(message), message


# ---- the stages


@pytest.mark.slow
def test_every_accepted_value_succeeds_in_its_stages(run):
    cases = [*one_value_per_group(), *EVALUATE_COMBINATIONS]
    outcomes = run(cases)
    check(cases, outcomes)
    succeeded = [pair for changes, outcome in zip(cases, outcomes, strict=True) if not outcome
                 for pair in changes.items()]  # fmt: skip
    assert [pair for pair in TOGETHER if not any(is_same(pair, other) for other in succeeded)] == []


def is_same(pair, other):
    """Whether two keys with values are the same; 1, 1.0 and True are different values."""
    return pair == other and type(pair[1]) is type(other[1])


@pytest.mark.slow
def test_a_value_that_a_stage_may_reject_succeeds_or_is_rejected_in_a_sentence(run):
    check(ALONE, run(ALONE))


@pytest.mark.slow
def test_combinations_of_values_succeed_or_are_rejected_in_a_sentence(run):
    cases = [changes for changes in COMBINATIONS if not rejection(changes)] + several_values(n_cases=20)
    check(cases, run(cases))


@pytest.mark.slow
def test_values_that_once_failed_succeed_or_are_rejected_in_a_sentence(run):
    cases = [changes for changes, _ in FAILED_ONCE]
    check(cases, run(cases))
