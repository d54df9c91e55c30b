"""Comparisons of experiments: what is folded, what is refused, what is said."""

from types import SimpleNamespace

import numpy as np
import pytest

from bukva.compare.comparison import compare, leaderboard
from bukva.core.errors import BukvaError
from bukva.project.revisions import Revision
from bukva.report.comparison import COMMAND, more_seeds, sentences
from bukva.report.leaderboard import sentences as board_sentences
from tests.compare.made import seeds_of


@pytest.fixture
def worse(known):
    """Two settings, of which b is worse, with three and four seeds. Return the function that makes results."""
    seeds_of(known, "a", range(3))
    seeds_of(known, "b", range(4), {"model.n_head": 8}, effect=0.2)
    return known


def mean_scores(found):
    """The oracle: the mean of the first three seeds of each side, from the scores in metrics.json."""
    sides = [[member.result.metrics["gpt"]["test"] for member in side.members[:3]] for side in (found.a, found.b)]
    return [np.mean(scores) for scores in sides]


def test_two_seeds_of_one_setting_have_no_verdict_and_a_training_and_itself_are_identical(known):
    for seed, samples in enumerate((1337, 5)):  # which the training does not need
        seeds_of(known, "a", [seed], {"sample.seed": samples}, sd=0.1)
    (found,) = compare(["a0", "a1"], "gpt", "test")
    assert (found.same_settings, found.changed) == (True, {"sample.seed": (1337, 5)})
    assert [found.a.seeds, found.b.seeds] == [[0], [1]]
    assert sentences(found)[0] == "No verdict: the trainings of a0 and a1 differ only in the seed (0 and 1)."
    (found,) = compare(["a0", "a0"], "gpt", "test")
    assert found.verdict.verdict == "identical"
    assert sentences(found)[0] == "Identical: settings a0 against a0."


def test_an_experiment_stands_for_all_seeds_of_its_setting(worse):
    (found,), (back,) = compare(["a1", "b2"], "gpt", "test"), compare(["b2", "a1"], "gpt", "test")
    assert [found.a.seeds, found.b.seeds] == [[0, 1, 2], [0, 1, 2, 3]]
    assert (found.verdict.method, found.verdict.seeds_b) == ("paired", (0, 1, 2))
    assert (found.verdict.verdict, back.verdict.verdict) == ("worse", "better")
    a, b = mean_scores(found)
    assert found.verdict.difference == -back.verdict.difference == pytest.approx(b - a, rel=1e-6)
    assert found.changed == {"model.n_head": (4, 8)}
    common = "Seeds are paired, so both verdicts use only the seeds that A and B have in common: 0, 1, 2."
    assert common in sentences(found)


def test_seeds_by_which_a_setting_was_chosen_can_be_left_out(worse):
    (found,) = compare(["a1", "b2"], "gpt", "test", [1, 2])
    assert [found.a.seeds, found.b.seeds] == [[1, 2], [1, 2]]
    with pytest.raises(BukvaError, match=r"a1 was not trained with seed 3\. It was trained with these seeds: 0, 1, 2"):
        compare(["a1", "b2"], "gpt", "test", [3])


def test_several_experiments_are_corrected_together(worse):
    for name, heads in (("c", 2), ("d", 1)):
        seeds_of(worse, name, range(3), {"model.n_head": heads}, effect=0.2)
    found = compare(["a0", "b0", "c0", "d0"], "gpt", "test")
    assert [each.verdict.compared for each in found] == [3, 3, 3]
    (alone,) = compare(["a0", "b0"], "gpt", "test")
    assert found[0].verdict.p == pytest.approx(3 * alone.verdict.p)


@pytest.mark.parametrize(
    ("a", "b", "model", "commands"),
    [
        ("x", "y", "gpt", ["dvc exp apply x && bukva seeds 3", "dvc exp apply y && bukva seeds 3"]),
        ("x", "workspace", "gpt", ["bukva seeds 3", "dvc exp apply x && bukva seeds 3"]),
        ("HEAD", "main", "bigram", ["git checkout HEAD params.yaml && bukva seeds 3 --model bigram",
                                    "git checkout main && bukva seeds 3 --model bigram"]),
        ("x", "many", "gpt", ["dvc exp apply x && bukva seeds 3"]),
    ],
)  # fmt: skip
def test_the_command_for_more_seeds_brings_each_side_that_needs_some_into_the_checkout(a, b, model, commands):
    def side(name):
        revision = Revision(name, "", "b" * 40 if name in ("x", "y") else "", name)
        return SimpleNamespace(model=model, seeds=range(5 if name == "many" else 1), revision=revision)

    assert more_seeds(SimpleNamespace(a=side(a), b=side(b))) == " && ".join([*commands, "dvc queue start"])


OWN_TEXT = {"text": {"val": "8" * 64, "test": "9" * 64}, "alphabet": "xyz"}
OTHER_TEST = {"text": {"val": "1" * 64, "test": "3" * 64}}
LONGER = {"window": {"length": 128, "stride": 64, "context": "own work"}}
TEXTS = "were scored on different test texts"
REMEDY = "so their scores cannot be compared. Compare experiments with the same text, cleaning rules and split."
DIFFERENT = "cannot be compared, because they"


@pytest.mark.parametrize(
    ("changes", "about", "reason"),
    [
        ({}, OTHER_TEST, f"{TEXTS}, {REMEDY}"),
        ({"download.corpus": "local", "split.test": 0.1}, OWN_TEXT,
         f"{TEXTS} (download.corpus: local and sample, split.test: 0.1 and 0.05), {REMEDY}"),
        ({}, LONGER, f"{DIFFERENT} were scored with different windows. Use the same model.block_size."),
        ({"tokenize.vocab_size": 1024}, {"alphabet": "abcd"},
         f"{DIFFERENT} have different alphabets. Use the same training text and tokenize.vocabulary."),
    ],
)  # fmt: skip
def test_scores_that_measure_something_else_are_refused_with_the_reason(known, changes, about, reason):
    known("a")
    known("b", changes, about=about)
    with pytest.raises(BukvaError) as error:
        compare(["a", "b"], "gpt", "test")
    assert str(error.value) == f"b and a {reason}"
    if about == OTHER_TEST:
        (found,) = compare(["a", "b"], "gpt", "val")  # whose text is the same
        assert (found.same_settings, found.changed, found.code) == (False, {}, [])


@pytest.mark.parametrize(
    ("other", "method", "sentence"),
    [
        ({"numerics": {"torch": "2.13.0", "arithmetic": "ffffffff"}}, "unpaired",
         "Seeds are not paired, because the trainings ran with different package versions"),
        ({"parameters": 11}, "unpaired", "Seeds are not paired, because the models have different shapes"),
        ({"changes": {"tokenize.kind": "byte"}, "about": LONGER | {"alphabet": None}}, "paired",
         "The tokenizers differ. A and B are still scored on the same characters, because the bits of a token are "
         "divided equally among its characters. The windows are 64 characters in A and 128 bytes in B."),
    ],
)  # fmt: skip
def test_other_arithmetic_shapes_and_tokenizers_are_compared_and_the_output_says_so(known, other, method, sentence):
    seeds_of(known, "a", range(3))
    seeds_of(known, "b", range(3), **{"changes": {"model.n_head": 8}, **other}, effect=0.2)
    (found,) = compare(["a0", "b0"], "gpt", "test")
    a, b = mean_scores(found)
    assert (found.verdict.method, found.verdict.difference) == (method, pytest.approx(b - a, rel=1e-6))
    assert any(line.startswith(sentence) for line in sentences(found))


def test_the_proposed_number_of_seeds_gives_a_verdict_and_a_noise_floor(known):
    n = int(COMMAND.removeprefix("bukva seeds "))
    for name, heads in (("a", 4), ("b", 8)):
        seeds_of(known, name, range(n), {"model.n_head": heads})
    known("c", {"model.n_head": 2}, effect=0.3)
    assert [each.verdict.method for each in compare(["a0", "b0", "c"], "gpt", "val")] == ["paired", "noise floor"]


def test_one_seed_each_borrows_the_noise_floor_of_other_groups_and_cannot_tell_without_one(known):
    known("a")
    known("b", {"model.n_head": 8}, effect=0.2)
    (found,) = compare(["a", "b"], "gpt", "test")
    both = "dvc exp apply a && bukva seeds 3 && dvc exp apply b && bukva seeds 3 && dvc queue start"
    assert sentences(found)[0] == f"Cannot tell from one seed each: settings b against a. To add seeds: {both}"
    seeds_of(known, "floor", range(5), {"model.n_head": 2})
    (found,) = compare(["a", "b"], "gpt", "test")
    assert (found.verdict.method, found.verdict.verdict) == ("noise floor", "probably worse")
    assert sentences(found)[0].startswith("Probably worse by 0.")


def test_of_two_recipe_families_the_larger_known_noise_floor_is_used_and_a_sentence_says_so(known):
    adamw = {"train_gpt.optimizer": "adamw"}
    known("a", {"train_gpt.seed": 9})
    known("b", {**adamw, "train_gpt.seed": 9}, effect=0.2)
    said = (
        "b and a have different optimizers or test texts, so the verdict uses the larger of their noise floors, or the "
        "only one that is known."
    )
    floors = []
    for name, changes, sd in (("muon", {"model.n_head": 2}, 0.005), ("adamw", {"model.n_head": 2, **adamw}, 0.05)):
        seeds_of(known, name, range(5), changes, sd=sd)
        for names in (["a", "b"], ["b", "a"]):
            (found,) = compare(names, "gpt", "val")
            floors.append(found.verdict.seed_sd)
        assert said in sentences(compare(["a", "b"], "gpt", "val")[0])
        assert said in board_sentences(leaderboard("a", "gpt"))
    assert floors[0] == floors[1] < floors[2] / 5 == floors[3] / 5
    known("c", {"model.n_head": 8, "train_gpt.seed": 9}, effect=0.1)
    (found,) = compare(["a", "c"], "gpt", "val")
    assert (found.verdict.seed_sd, said in sentences(found)) == (floors[0], False)
