"""A search goes on with the same trials after a kill, prunes those that fall behind, and knows its best."""

from pathlib import Path

import pytest
from cluster.fakes import place

from bukva.cluster.board import Entry
from bukva.cluster.search import Search
from bukva.cluster.space import extremes, read_space
from bukva.cluster.trials import check
from bukva.cluster.watch import Progress
from bukva.config.load import read_params
from bukva.core.errors import BukvaError

SCORES = [2.5, 2.25, 2.75]  # of the trials that finish


def test_a_search_that_is_started_again_has_its_trials_and_its_best_and_prunes_one_that_is_behind(project, monkeypatch):
    Path("space.yaml").write_text("train_gpt.learning_rate: {low: 0.0001, high: 0.01, log: true}\n")
    training = read_params().train_gpt.model_copy(update={"n_steps": 900, "eval_every": 100})
    scores = {}
    monkeypatch.setattr(Search, "score", lambda _, name: scores[name])

    def started():
        return Search("find", "1" * 40, read_space(Path("space.yaml")), 4, training, True, place(project))

    def is_hopeless(guide, trial, bits):
        return guide.is_hopeless(trial.name, Entry([], "running", progress=Progress("train-gpt", 100, 900, bits, bits)))

    guide = started()
    trials = [guide.next() for _ in range(4)]
    assert guide.next() is None
    for trial, bits in zip(trials, SCORES, strict=False):
        scores[trial.name] = bits
        is_hopeless(guide, trial, bits)
        guide.ended(trial.name, Entry([], "finished"))
    again = started()
    assert again.known() == tuple(trials)
    assert again.best() == trials[1]
    assert is_hopeless(again, trials[3], 3.0)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("model.dropout: {low: 0.5, high: 0.1}\n", "(low 0.5 is not less than high 0.1); "),
        ("train_gpt.n_steps: [100, 200]\n", "train_gpt.n_steps must stay the same in a search"),
    ],
)
def test_a_space_that_makes_no_sense_is_one_sentence_before_anything_runs(project, text, sentence):
    Path("space.yaml").write_text(text)
    with pytest.raises(BukvaError) as error:
        check(list(extremes(read_space(Path("space.yaml")))))
    assert sentence in str(error.value)
