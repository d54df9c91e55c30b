"""The web application, with small models and without results: what its pages ask, and what they say without any."""

import json
import re
from types import SimpleNamespace

import pytest
import torch
from fastapi.testclient import TestClient
from imports import SHIPPED
from lxml import html

from bukva.backends.device import Machine
from bukva.core.errors import BukvaError
from bukva.core.params import read_params
from bukva.models.bigram import Bigram, BigramConfig
from bukva.models.gpt import GPT, GPTConfig
from bukva.serving import app as pages
from bukva.serving.app import site
from bukva.serving.library import Choice
from bukva.serving.writer import Writer
from bukva.text.tokenizers.char import CharTokenizer
from bukva.tracking.ui import Server

CHARS = sorted("\n !<абвг")
SAMPLE = read_params(SHIPPED).sample


class FewModels:
    """A library of two models of one experiment, whose weights differ."""

    def __init__(self):
        machine = Machine(torch.device("cpu"), torch.float32)
        self.writers = {}
        for seed, key in enumerate(("workspace/gpt", "<b>/gpt")):
            torch.manual_seed(seed)
            self.writers[key] = Writer(
                GPT(GPTConfig(len(CHARS), 1, 2, 8, 13, 0.0)).eval(), CharTokenizer(CHARS), machine
            )

    def choices(self):
        return [Choice(key, False, key, key.removesuffix("/gpt"), "GPT", 2.345, {}) for key in self.writers]

    def writer(self, key):
        if key not in self.writers:
            raise BukvaError(f"{key}: no such model.")
        return self.writers[key]


@pytest.fixture(scope="module")
def library():
    return FewModels()


@pytest.fixture(scope="module")
def client(library):
    return TestClient(site(library, SAMPLE, Server("http://127.0.0.1:5000")), base_url="http://127.0.0.1")


def written(client, **request):
    answer = client.post("/play/write", json={"model": "workspace/gpt", "text": "аб"} | request)
    assert answer.status_code == 200, answer.text
    first, *others = map(json.loads, answer.text.splitlines())
    return first["scored"], others


def test_everything_that_the_page_loads_comes_from_the_same_place(client):
    page = html.fromstring(client.get("/play").text)
    addresses = [address for address in page.xpath("//@src|//link/@href") if not address.startswith("data:")]
    assert len(addresses) == 3
    for address in addresses:
        assert re.match("/[^/]", address)
        assert client.get(address).status_code == 200
    assert client.get("/play").headers["Content-Security-Policy"].startswith("default-src 'self'")
    assert [client.get(path).status_code for path in ("/docs", "/redoc", "/openapi.json")] == [404] * 3
    # a page of another site could otherwise read answers through a name that leads here
    assert client.get("/play", headers={"Host": "bukva.example"}).status_code == 400


def test_a_text_is_scored_by_the_model_that_is_named(client, library):
    for key, writer in library.writers.items():
        answer = client.post("/play/score", json={"model": key, "text": "аб é<"}).json()
        assert answer["scored"] == [list(piece) for piece in writer.score("аб <")]
        assert answer["unknown"] == ["é"]
        assert answer["likeliest"] == [list(pair) for pair in writer.likeliest("аб <", 5)]


def test_each_model_reports_the_characters_that_it_lacks(client, library, monkeypatch):
    """A Russian prompt for an English bigram and a Russian GPT, each of which knows a part of it."""
    latin = CharTokenizer(sorted(" !abc"))
    bigram = Bigram(BigramConfig(len(latin), 8)).eval()
    monkeypatch.setitem(
        library.writers, "english/bigram", Writer(bigram, latin, Machine(torch.device("cpu"), torch.float32))
    )
    for text, of_english, of_russian in (("аб вг!", [*"абвг"], []), ("абв", [*"абв"], []), ("аc б", [*"аб"], ["c"])):
        for key, lacking in (("english/bigram", of_english), ("workspace/gpt", of_russian)):
            request = {"model": key, "text": text}
            assert client.post("/play/score", json=request).json()["unknown"] == lacking
            answer = client.post("/play/write", json=request | {"settings": {"n_chars": 3}})
            first, *pieces = map(json.loads, answer.text.splitlines())
            assert (first["unknown"], len(pieces)) == (lacking, 3)


def test_an_answer_has_the_text_with_the_composed_letters_that_the_model_reads(client, library, monkeypatch):
    writer = library.writer("workspace/gpt")
    monkeypatch.setattr(writer, "tokenizer", CharTokenizer(sorted("\n !<абвй")))
    answer = client.post("/play/score", json={"model": "workspace/gpt", "text": "аи\u0306бé"}).json()
    assert (answer["text"], answer["unknown"]) == ("айбé", ["é"])
    assert "".join(piece for piece, _ in answer["scored"]) == "айб"


def test_what_is_written_arrives_piece_by_piece_after_the_scored_text(client, library):
    scored, pieces = written(client, settings={"n_chars": 23, "seed": 5})
    assert "".join(text for text, _ in scored) == "аб"
    how = SAMPLE.model_copy(update={"n_chars": 23, "seed": 5})
    assert [text for text, _ in pieces] == [one.text for one in library.writer("workspace/gpt").write("аб", how)]
    assert written(client, text="", settings={"n_chars": 3})[0] == [["\n", None]]


@pytest.mark.parametrize(
    ("path", "request_", "sentence"),
    [
        ("score", {"model": "other/gpt"}, "other/gpt: no such model."),
        ("score", {"text": 7}, "text: 7 (int) is invalid. The value should be a valid string."),
        ("write", {"settings": {"temprature": 1}},
         "temprature: this key is unknown (its value is 1). Did you mean `temperature`?"),
        ("write", {"settings": {"n_chars": 10_001}},
         "n_chars: 10001 (int) is invalid. The value should be less than or equal to 10000."),
    ],
)  # fmt: skip
def test_a_request_that_makes_no_sense_gets_400_and_a_sentence(client, path, request_, sentence):
    answer = client.post(f"/play/{path}", json={"model": "workspace/gpt", "text": "а"} | request_)
    assert (answer.status_code, answer.json()) == (400, {"error": sentence})
    assert client.post(f"/play/{path}", content=b"{").status_code == 400


def no_result(*_, **__):
    raise BukvaError("HEAD: has no result; run `dvc repro`.")


def test_without_a_result_there_is_a_page_with_the_sentence(client, monkeypatch):
    monkeypatch.setattr(pages, "overview", no_result)
    monkeypatch.setattr(pages, "page_of", no_result)
    for path in ("/", "/runs/<b>"):
        answer = client.get(path)
        assert answer.status_code == 404
        page = html.fromstring(answer.text)
        assert page.xpath("//p[@class='verdict']")[0].text_content() == "HEAD: has no result; run dvc repro."
        assert page.xpath("//nav//@href") == ["/", "/runs/workspace", "/play", "/mlflow"]


def test_while_a_stage_runs_a_page_without_a_result_names_it_and_mlflow(client, monkeypatch):
    monkeypatch.setattr(pages, "overview", no_result)
    ended, running = (
        SimpleNamespace(start={"stage": stage}, is_running=lambda on=on: on)
        for stage, on in (("a", False), ("b", True))
    )
    monkeypatch.setattr(pages, "read_journals", lambda: [ended, running])
    page = html.fromstring(client.get("/").text)
    assert page.xpath("//h1")[0].text_content() == "No results yet"
    assert page.xpath("//p[@class='verdict']")[0].text_content() == (
        "HEAD: has no result; run dvc repro. Stage b is running; MLflow (/mlflow) shows the curves of trainings."
    )
    assert html.fromstring(client.get("/runs/none").text).xpath("//h1")[0].text_content() == "Nothing to show"


def test_a_page_is_built_again_only_when_a_result_has_changed(client, monkeypatch):
    built, commits = [], ["one"]
    monkeypatch.setattr(pages, "page_of", lambda name, *_, **__: built.append(name) or f"{name} {len(built)}")
    monkeypatch.setattr(pages, "_state", lambda: tuple(commits))
    assert [client.get(path).text for path in ("/runs/a", "/runs/a", "/runs/b/c", "/runs/a")] == [
        "a 1", "a 1", "b/c 2", "a 1",
    ]  # fmt: skip
    commits.append("two")
    assert client.get("/runs/a").text == "a 3"
