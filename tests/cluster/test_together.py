"""A machine that trains with others knows which it is, computes its share only, and records nothing of it elsewhere."""

import pytest

from bukva.base.errors import BukvaError, LostError
from bukva.cluster import running
from bukva.cluster.job import News


@pytest.mark.parametrize(
    ("printed", "status", "error"),
    [
        ("ERROR: failed to reproduce 'train-gpt': failed to run: a b, exited with 75", 255, LostError),
        ("ERROR: failed to reproduce 'train-gpt': failed to run: a b, exited with 1", 255, BukvaError),
    ],
)
def test_a_stage_that_has_lost_another_machine_may_be_tried_again(tmp_path, monkeypatch, printed, status, error):
    class Silent:
        def news(self) -> list[object]:
            return []

    said: list[News] = []
    script = f"echo 'train-gpt: a sentence'; echo \"{printed}\"; exit {status}"
    with pytest.raises(BukvaError) as raised:
        running._run(["sh", "-c", script], tmp_path, said.append, Silent())
    assert type(raised.value) is error
    assert str(raised.value) == "train-gpt: a sentence"
    assert [news.values["text"] for news in said] == ["train-gpt: a sentence", printed]
