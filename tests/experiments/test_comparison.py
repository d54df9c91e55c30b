"""Comparisons of experiments: what is folded, what is refused, what is said."""

from types import SimpleNamespace

import numpy as np
import pytest
from experiments.scored import seeds_of

from bukva.compare.comparison import compare
from bukva.core.errors import BukvaError
from bukva.project.revisions import Revision
from bukva.report.comparison import more_seeds, sentences


def test_two_seeds_of_one_setting_have_no_verdict_and_a_training_and_itself_are_identical(known):
    seeds_of(known, "a", range(2), sd=0.1)
    (found,) = compare(["a0", "a1"], "gpt", "test")
    assert found.same_settings
    assert [found.a.seeds, found.b.seeds] == [[0], [1]]
    assert sentences(found)[0].startswith("No verdict: ")
    assert sentences(found)[0].endswith(" have the same settings and differ only in the seed (0 and 1).")
    (found,) = compare(["a0", "a0"], "gpt", "test")
    assert found.verdict.verdict == "identical"
    assert sentences(found)[0] == "Identical: settings a0 against a0."


def test_an_experiment_stands_for_all_seeds_of_its_setting(known):
    seeds_of(known, "a", range(3))
    seeds_of(known, "b", range(4), {"model.n_head": 8}, effect=0.2)
    (found,), (back,) = compare(["a1", "b2"], "gpt", "test"), compare(["b2", "a1"], "gpt", "test")
    assert [found.a.seeds, found.b.seeds] == [[0, 1, 2], [0, 1, 2, 3]]
    assert (found.verdict.method, found.verdict.seeds_b) == ("paired", (0, 1, 2))
    assert (found.verdict.verdict, back.verdict.verdict) == ("worse", "better")
    # the oracle: the mean difference of the paired seeds, from the scores in metrics.json
    scores = [[member.result.metrics["gpt"]["test"] for member in side.members] for side in (found.a, found.b)]
    assert found.verdict.difference == pytest.approx(np.mean(scores[1][:3]) - np.mean(scores[0]), rel=1e-6)
    assert back.verdict.difference == -found.verdict.difference
    assert found.changed == {"model.n_head": (4, 8)}
    assert "Seeds are paired, so both verdicts use only the seeds that A and B have in common: 0, 1, 2." in sentences(
        found
    )


def test_seeds_by_which_a_setting_was_chosen_can_be_left_out(known):
    seeds_of(known, "a", range(3))
    seeds_of(known, "b", range(4), {"model.n_head": 8}, effect=0.2)
    (found,) = compare(["a1", "b2"], "gpt", "test", [1, 2])
    assert [found.a.seeds, found.b.seeds] == [[1, 2], [1, 2]]
    with pytest.raises(BukvaError, match=r"a1 was not trained with seed 3\. It was trained with these seeds: 0, 1, 2"):
        compare(["a1", "b2"], "gpt", "test", [3])


def test_several_experiments_are_corrected_together(known):
    seeds_of(known, "a", range(3))
    for name, heads in (("b", 1), ("c", 2), ("d", 8)):
        seeds_of(known, name, range(3), {"model.n_head": heads}, effect=0.2)
    found = compare(["a0", "b0", "c0", "d0"], "gpt", "test")
    assert [each.verdict.compared for each in found] == [3, 3, 3]
    (alone,) = compare(["a0", "b0"], "gpt", "test")
    assert found[0].verdict.p == pytest.approx(3 * alone.verdict.p)


@pytest.mark.parametrize(
    ("a", "b", "model", "commands"),
    [
        ("x", "y", "gpt", ["dvc exp apply x && bukva seeds 5", "dvc exp apply y && bukva seeds 5"]),
        ("x", "workspace", "gpt", ["bukva seeds 5", "dvc exp apply x && bukva seeds 5"]),
        ("HEAD", "main", "bigram", ["git checkout HEAD params.yaml && bukva seeds 5 --model bigram",
                                    "git checkout main && bukva seeds 5 --model bigram"]),
        ("x", "many", "gpt", ["dvc exp apply x && bukva seeds 5"]),
    ],
)  # fmt: skip
def test_the_command_for_more_seeds_brings_each_side_that_needs_some_into_the_checkout(a, b, model, commands):
    def side(name):
        result = SimpleNamespace(revision=Revision(name, "", "b" * 40 if name in ("x", "y") else ""))
        seeds = range(5 if name == "many" else 1)
        members = [SimpleNamespace(result=result)]
        return SimpleNamespace(name=name, model=model, seeds=seeds, members=members, result=result)

    assert more_seeds(SimpleNamespace(a=side(a), b=side(b))) == " && ".join([*commands, "dvc queue start"])


OWN_TEXT = {"text": {"val": "8" * 64, "test": "9" * 64}, "alphabet": "xyz"}
OTHER_TEST = {"text": {"val": "1" * 64, "test": "3" * 64}}
LONGER = {"window": {"length": 128, "stride": 64, "context": "own work"}}


REMEDY = "so their scores cannot be compared. Compare experiments with the same text, cleaning rules and split."


@pytest.mark.parametrize(
    ("changes", "about", "reason"),
    [
        ({}, OTHER_TEST, f"were scored on different test texts, {REMEDY}"),
        (
            {"download.corpus": "local", "split.test": 0.1},
            OWN_TEXT,
            "were scored on different test texts (download.corpus: local and sample, split.test: 0.1 and 0.05), "
            + REMEDY,
        ),
        (
            {},
            LONGER,
            "cannot be compared, because they were scored with different windows. Use the same model.block_size.",
        ),
        (
            {"tokenize.vocab_size": 1024},
            {"alphabet": "abcd"},
            "cannot be compared, because they have different alphabets. Use the same training text and "
            "tokenize.vocabulary.",
        ),
    ],
)
def test_scores_that_measure_something_else_are_refused_with_the_reason(known, changes, about, reason):
    known("a")
    known("b", changes, about=about)
    with pytest.raises(BukvaError) as error:
        compare(["a", "b"], "gpt", "test")
    assert str(error.value) == f"b and a {reason}"
    if about == OTHER_TEST:
        assert compare(["a", "b"], "gpt", "val")  # whose text is the same


def test_tokenizers_are_compared_over_the_same_characters_and_the_output_says_so(known):
    seeds_of(known, "a", range(3))
    seeds_of(
        known, "b", range(3), {"tokenize.kind": "byte"}, effect=0.2, about=LONGER | {"alphabet": None}, parameters=11
    )
    (found,) = compare(["a0", "b0"], "gpt", "test")
    scores = [np.mean([member.result.metrics["gpt"]["test"] for member in side.members])
              for side in (found.a, found.b)]  # fmt: skip
    assert found.verdict.difference == pytest.approx(scores[1] - scores[0], rel=1e-6)
    (line,) = [line for line in sentences(found) if line.startswith("The tokenizers differ.")]
    assert line.endswith("The windows are 64 characters in A and 128 bytes in B.")


@pytest.mark.parametrize(
    ("other", "sentence"),
    [
        ({"numerics": {"torch": "2.13.0", "arithmetic": "ffffffff"}}, "trainings ran with different package versions"),
        ({"parameters": 11}, "models have different shapes"),
    ],
)
def test_trainings_with_other_arithmetic_or_of_other_shapes_are_not_paired(known, other, sentence):
    seeds_of(known, "a", range(3))
    seeds_of(known, "b", range(3), {"model.n_head": 8}, effect=0.2, **other)
    (found,) = compare(["a0", "b0"], "gpt", "test")
    assert found.verdict.method == "unpaired"
    assert any(line.startswith(f"Seeds are not paired, because the {sentence}") for line in sentences(found))


def test_one_seed_each_borrows_the_noise_floor_of_other_groups_and_cannot_tell_without_one(known):
    known("a")
    known("b", {"model.n_head": 8}, effect=0.2)
    (found,) = compare(["a", "b"], "gpt", "test")
    both = "dvc exp apply a && bukva seeds 5 && dvc exp apply b && bukva seeds 5 && dvc queue start"
    assert sentences(found)[0] == f"Cannot tell from one seed each: settings b against a. To add seeds: {both}"
    seeds_of(known, "floor", range(5), {"model.n_head": 2})
    (found,) = compare(["a", "b"], "gpt", "test")
    assert (found.verdict.method, found.verdict.verdict) == ("noise floor", "probably worse")
    assert sentences(found)[0].startswith("Probably worse by 0.")
