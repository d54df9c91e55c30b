"""The study of counting, and that it repeats the training."""

import json
import math

import numpy as np
import pytest
from studies.remembering import LENGTHS, ORDERS, SPLITS, TRAIN, remembering
from studies.small import CPU, PARAMS, TOKENIZER, T, V

from bukva.config.schema import Training
from bukva.models.gpt import GPT
from bukva.models.ngrams.counts import count_pairs
from bukva.studies.counting_study import experts_on, study, summary, works_of_val
from bukva.text.held_out import HeldOut
from bukva.training.run import Task, run_training, start
from bukva.training.windows import Windows

RECIPE = Training(
    optimizer="adamw", n_steps=5, batch_size=4, micro_batches=1, learning_rate=0.01, warmup_steps=2, decay_to=0.0,
    weight_decay=0.1, beta2=0.99, grad_clip=1.0, eval_every=5, patience=0, order="epoch", seed=3,
)  # fmt: skip


TEXT = HeldOut(SPLITS, LENGTHS, TOKENIZER)


@pytest.fixture(scope="module")
def found():
    return study(remembering(), TEXT, PARAMS, RECIPE, CPU)


def test_scores_are_over_the_same_characters_and_can_be_written_as_json(found):
    assert json.loads(json.dumps(found)) == found
    assert sum(row["n"] for row in found["by_context"]) == found["val"]["n"] == len(SPLITS["val"]) - 1
    scores, val = found["scores"], found["val"]
    names = {"ngrams": "counted", "network": "learned", "together": "together"}
    assert [scores[name] for name in names] == pytest.approx([val[name] for name in names.values()])
    table = count_pairs(TRAIN, V) + 1
    shares = table / table.sum(1, keepdims=True)
    texts = works_of_val(remembering(), TEXT)
    pairs = [(text.ids[i - 1], text.ids[i]) for text in texts for i in range(text.n_context, len(text.ids))]
    assert scores["bigram"] == pytest.approx(np.mean([-math.log2(shares[pair]) for pair in pairs]))
    assert scores["chars"] == len(pairs)


def test_the_passage_has_the_numbers_of_its_characters(found):
    experts = experts_on(remembering(), works_of_val(remembering(), TEXT))
    chars = found["passage"]["chars"]
    assert found["passage"]["work"] == 0
    text = "".join(char["char"] for char in chars)
    work = TOKENIZER.decode(SPLITS["val"][1:31])
    assert work.endswith(text)
    assert len(text) > 10
    assert work[: -len(text)].endswith("\n")
    first = 30 - len(text)
    for i, char in enumerate(chars):
        assert char["together"] == pytest.approx(experts.together[first + i] / math.log(2))
        assert char["order"] == experts.order[first + i] in ORDERS


def test_the_first_updates_are_those_of_the_training(found):
    config = remembering().config
    windows = Windows(TRAIN, T, RECIPE.batch_size, RECIPE.order, RECIPE.seed)
    summaries = {}

    def score(model, _):
        summaries[len(summaries)] = summary(experts_on(model, works_of_val(model, TEXT)))
        return 1.0

    task = Task(lambda: GPT(config), windows, score, RECIPE.model_copy(update={"eval_every": 1}), CPU)
    run_training(task, start(task))
    steps = [point["step"] for point in found["training"]["points"]]
    assert steps == [0, 1, 2, 3]  # leak_steps of the parameters, with the learning rates of all five
    for point in found["training"]["points"]:
        assert point["together"] == pytest.approx(summaries[point["step"]]["together"])
    assert len({point["together"] for point in found["training"]["points"]}) == 4
    assert found["training"]["trained"] == pytest.approx(found["val"])
