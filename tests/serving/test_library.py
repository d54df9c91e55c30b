"""Which models the playground offers, and in which order."""

from types import SimpleNamespace

from bukva.serving import library
from bukva.serving.library import Library


def result(name, text, bits):
    return SimpleNamespace(
        revision=SimpleNamespace(name=name, is_workspace=name == "workspace"),
        about={"text": {"val": text}},
        scores={"about.json": "-"},
        metrics={"gpt": {"val": bits}},
    )


def test_models_of_the_last_runs_text_come_before_better_scores_on_another_text(monkeypatch):
    found = {"workspace": ("a", 2.4), "english": ("b", 1.0), "wide": ("a", 2.3), "deep": ("a", 2.2)}
    known = [result(name, *rest) for name, rest in found.items()]
    monkeypatch.setattr(library, "experiments", list)
    monkeypatch.setattr(library, "head", str)
    monkeypatch.setattr(library, "read_results", lambda _: known)
    monkeypatch.setattr(library, "_choices_of", lambda one: [Named(one.revision.name)])
    made = Library.__new__(Library)
    assert [choice.key for choice in made.choices()] == ["workspace", "deep", "wide", "english"]


class Named(str):
    """A choice that is equal to itself only, under its key."""

    @property
    def key(self):
        return str(self)
