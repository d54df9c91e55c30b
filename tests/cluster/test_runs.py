"""What a trial has computed reaches other machines as one file, and each machine asks for it once."""

import json

import pytest

from bukva.cluster import runs


class FakeRemote:
    """A remote in a dictionary: path -> content."""

    def __init__(self) -> None:
        self.files: dict[tuple[str, ...], str] = {}
        self.got: list[str] = []

    def names(self, *path: str) -> list[str]:
        return [file[-1] for file in self.files if file[:-1] == path]

    def put(self, file, *path: str) -> None:
        self.files[path] = file.read_text()

    def get(self, file, *path: str) -> None:
        self.got.append(path[-1])
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(self.files[path])


@pytest.fixture
def remote(monkeypatch) -> FakeRemote:
    remote = FakeRemote()
    monkeypatch.setattr(runs, "Remote", lambda: remote)
    return remote


@pytest.fixture
def known(monkeypatch) -> dict[str, str]:
    """The run cache of this machine."""
    known: dict[str, str] = {}
    monkeypatch.setattr(runs, "add_entries", lambda _, entries: known.update(entries))
    return known


def send(monkeypatch, tmp_path, trial: str, **entries: str) -> None:
    monkeypatch.setattr(runs, "push_objects", lambda _: entries)
    runs.send_runs(tmp_path, "c0ffee", trial)


def test_a_machine_gets_what_other_trials_of_this_commit_have_sent_once(remote, known, monkeypatch, tmp_path):
    send(monkeypatch, tmp_path, "one", a="1")
    send(monkeypatch, tmp_path, "two", b="2")
    remote.files["c0ffee", "runs", "three.json.part"] = "{"  # is being written
    remote.files["another", "runs", "four.json"] = json.dumps({"d": "4"})
    runs.fetch_runs(tmp_path, "c0ffee")
    assert known == {"a": "1", "b": "2"}
    assert remote.got == ["one.json", "two.json"]
    send(monkeypatch, tmp_path, "three", c="3")
    runs.fetch_runs(tmp_path, "c0ffee")
    assert known == {"a": "1", "b": "2", "c": "3"}
    assert remote.got == ["one.json", "two.json", "three.json"]


def test_what_was_interrupted_before_the_run_cache_had_it_is_got_again(remote, known, monkeypatch, tmp_path):
    send(monkeypatch, tmp_path, "one", a="1")

    def interrupt(_, __) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(runs, "add_entries", interrupt)
        with pytest.raises(KeyboardInterrupt):
            runs.fetch_runs(tmp_path, "c0ffee")
    runs.fetch_runs(tmp_path, "c0ffee")
    assert known == {"a": "1"}
