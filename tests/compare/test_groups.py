"""Seed groups: which results are one, by what dvc.lock records of them."""

from dataclasses import replace

import pytest

from bukva.compare.groups import groups
from tests.compare.made import ABOUT, NUMERICS, result


@pytest.fixture
def made(tmp_path):
    """A function that makes a result."""
    return lambda name, *changes, **more: result(tmp_path, name, *changes, **more)


def grouped(results, model="gpt"):
    """The names of the members of each group, those of one training joined by +."""
    return [["+".join(member.names) for member in group.members] for group in groups(results, model)]


def test_seeds_make_a_group_in_their_order(made):
    results = [made("c", {"train_gpt.seed": 7}), made("a"), made("b", {"train_gpt.seed": 5})]
    (group,) = groups(results, "gpt")
    assert [(member.seed, member.names) for member in group.members] == [(5, ["b"]), (7, ["c"]), (1337, ["a"])]
    assert group.scores("val") == [2.5, 2.5, 2.5]


def test_what_the_training_does_not_need_makes_no_other_training(made):
    others = [{key: 5} for key in ("train_bigram.seed", "train_bigram.learning_rate", "sample.seed")]
    results = [made("a"), *(made(f"b{number}", change) for number, change in enumerate(others))]
    results += [made(file, digests={file: "9"}) for file in ("bigram.py", "evaluate.py")]
    assert [len(group.members) for group in groups(results, "gpt")] == [1]


@pytest.mark.parametrize(
    "other",
    [{"changes": {key: 3}} for key in ("model.n_head", "train_gpt.optimizer", "split.test")]
    + [{"digests": {file: "9"}} for file in ("code.py", "split.py", "books")]
    + [{"about": {part: "other"}} for part in ("window", "alphabet", "text")],
)
def test_another_parameter_or_source_of_the_training_or_another_measure_makes_another_group(made, other):
    assert grouped([made("a"), made("b", **other)]) == [["a"], ["b"]]


def test_each_model_has_groups_of_its_own(made):
    results = [made("a"), made("b", {"train_gpt.seed": 5}), made("c", {"train_bigram.seed": 5})]
    assert grouped(results) == [["b", "a+c"]]
    assert grouped(results, "bigram") == [["c", "a+b"]]
    assert groups(results, "gpt")[0].family != groups(results, "bigram")[0].family


def test_one_seed_on_two_machines_counts_as_two_seeds_and_incomplete_results_are_in_no_group(made):
    results = [made("a"), made("b", numerics=NUMERICS | {"arithmetic": "f"}), made("c")]
    assert sorted(*grouped(results)) == ["a+c", "b"]
    assert grouped([replace(results[0], problem="stage evaluate has not run"), replace(results[1], scores={})]) == []


def test_the_durations_of_trainings_are_read_once_for_all_settings_and_found_by_their_models(made, monkeypatch):
    read = []
    known = {"model of 2": 7.0, "model of 3": 11.0, "model of 3, another seed": 13.0}
    monkeypatch.setattr("bukva.compare.groups.seconds_of_models", lambda model: read.append(model) or known)

    def trained(heads, model, seed=1337):
        found = made(model, {"model.n_head": heads, "train_gpt.seed": seed})
        training = replace(found.lock["train-gpt"], outs={"data/models/gpt": model})
        return replace(found, lock={**found.lock, "train-gpt": training})

    results = [trained(2, "model of 2"), trained(3, "model of 3"), trained(5, "unknown")]
    settings = groups([*results, trained(3, "model of 3, another seed", seed=5)], "gpt")
    assert [setting.seconds for setting in settings] == [7, 12, None]
    assert read == ["gpt"]


def test_a_family_is_a_text_a_model_and_an_optimizer(made):
    known = groups([made("a")], "gpt")[0].family
    other_text = {"text": ABOUT["text"] | {"test": "3"}}
    same = [made("b", {"model.n_head": 2}), made("c", about={"window": {"length": 8}})]
    others = [made("d", {"train_gpt.optimizer": "adamw"}), made("e", about=other_text)]
    assert {group.family for group in groups(same, "gpt")} == {known}
    assert known not in {group.family for group in groups(others, "gpt")}
