"""The web application, with small models and without results: what its pages ask, and what they say without any."""

import json
import re
from types import SimpleNamespace

import pytest
import torch
from fastapi.testclient import TestClient
from lxml import html

from bukva.backends.device import Machine
from bukva.core.errors import BukvaError
from bukva.core.params import read_params
from bukva.models.bigram import Bigram, BigramConfig
from bukva.models.gpt import GPT, GPTConfig
from bukva.project.revisions import Revision
from bukva.serving import app as pages
from bukva.serving.app import LINKS, Choice, site
from bukva.serving.mlflow_server import Server
from bukva.serving.writer import Writer
from bukva.text.tokenizers import CharTokenizer
from tests.support.imports import SHIPPED

CHARS = sorted("\n !<абвгй")
SAMPLE = read_params(SHIPPED).sample
CPU = Machine(torch.device("cpu"), torch.float32)


class FewModels:
    """A library of two models of one experiment, whose weights differ, and of a bigram that knows other letters."""

    def __init__(self):
        latin = CharTokenizer(sorted(" !abc"))
        self.writers = {}
        for seed, key in enumerate(("workspace/gpt", "<b>/gpt")):
            torch.manual_seed(seed)
            model = GPT(GPTConfig(len(CHARS), 1, 2, 8, 13, 0.0)).eval()
            self.writers[key] = Writer(model, CharTokenizer(CHARS), CPU)
        self.writers["english/bigram"] = Writer(Bigram(BigramConfig(len(latin), 8)).eval(), latin, CPU)

    def choices(self):
        return [Choice(key, *key.split("/"), 2.345) for key in self.writers]

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


def posted(client, path, text, model="workspace/gpt", **request):
    answer = client.post(f"/play/{path}", json={"model": model, "text": text} | request)
    assert answer.status_code == 200, answer.text
    return list(map(json.loads, answer.text.splitlines()))


def test_everything_that_the_page_loads_comes_from_the_same_place(client):
    answer = client.get("/play")
    addresses = [
        url for url in html.fromstring(answer.text).xpath("//@src|//link/@href") if not url.startswith("data:")
    ]
    assert len(addresses) == 3
    for address in addresses:
        assert re.match("/[^/]", address)
        assert client.get(address).status_code == 200
    assert answer.headers["Content-Security-Policy"].startswith("default-src 'self'")
    assert [client.get(path).status_code for path in ("/docs", "/redoc", "/openapi.json")] == [404] * 3
    # a page of another site could otherwise read answers through a name that leads here
    assert client.get("/play", headers={"Host": "bukva.example"}).status_code == 400


def test_a_text_is_scored_and_continued_by_the_model_that_is_named(client, library):
    how = SAMPLE.model_copy(update={"n_chars": 23, "seed": 5})
    for key in ("workspace/gpt", "<b>/gpt"):
        writer = library.writer(key)
        [answer] = posted(client, "score", "аб é<", key)
        assert answer["scored"] == [list(piece) for piece in writer.score("аб <")]
        assert answer["likeliest"] == [list(pair) for pair in writer.likeliest("аб <", 5)]
        # the pieces come after the scored text
        first, *pieces = posted(client, "write", "аб", key, settings={"n_chars": 23, "seed": 5})
        assert "".join(text for text, _ in first["scored"]) == "аб"
        assert [text for text, _ in pieces] == [one.text for one in writer.write("аб", how)]
    assert posted(client, "write", "", settings={"n_chars": 3})[0]["scored"] == [["\n", None]]


@pytest.mark.parametrize(
    ("text", "read", "of_english", "of_russian"),
    [
        ("аб вг!", "аб вг!", [*"абвг"], []),
        ("аc б", "аc б", [*"аб"], ["c"]),
        ("аи\u0306бé", "айбé", [*"айбé"], ["é"]),  # decomposed letters are composed if the model knows the letter
    ],
)
def test_each_model_reports_the_characters_that_it_lacks(client, text, read, of_english, of_russian):
    for key, lacking in (("english/bigram", of_english), ("workspace/gpt", of_russian)):
        [answer] = posted(client, "score", text, key)
        first, *pieces = posted(client, "write", text, key, settings={"n_chars": 3})
        assert (answer["unknown"], first["unknown"], len(pieces)) == (lacking, lacking, 3)
    assert (answer["text"], first["text"]) == (read, read)
    assert "".join(piece for piece, _ in answer["scored"]) == "".join(char for char in read if char not in of_russian)


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


def test_without_a_result_there_is_a_page_with_the_sentence_and_the_stage_that_runs(client, monkeypatch):
    monkeypatch.setattr(pages, "overview", no_result)
    monkeypatch.setattr(pages, "page_of", no_result)
    monkeypatch.setattr(pages, "resolve", lambda name: Revision(name, ""))

    def shown(path):
        answer = client.get(path)
        page = html.fromstring(answer.text)
        assert answer.status_code == 404
        assert page.xpath("//nav//@href") == [path for path, _ in LINKS]
        return page.xpath("//h1")[0].text, page.xpath("//p[@class='verdict']")[0].text_content()

    monkeypatch.setattr(pages, "read_runs", list)
    nothing = ("Nothing to show", "HEAD: has no result; run dvc repro.")
    assert shown("/") == shown("/runs/<b>") == nothing
    ended, running = (
        SimpleNamespace(stage=stage, is_running=lambda on=on: on) for stage, on in (("a", False), ("b", True))
    )
    monkeypatch.setattr(pages, "read_runs", lambda: [ended, running])
    more = " Stage b is running; MLflow (/mlflow) shows the curves of trainings."
    assert shown("/") == ("No results yet", nothing[1] + more)
    assert shown("/runs/none") == nothing


def test_a_page_is_built_again_only_when_a_result_has_changed(client, monkeypatch):
    built, commits = [], ["one"]
    monkeypatch.setattr(pages, "page_of", lambda name, *_, **__: built.append(name) or f"{name} {len(built)}")
    monkeypatch.setattr(pages, "_state", lambda: tuple(commits))
    monkeypatch.setattr(pages, "resolve", lambda name: Revision(name, ""))
    assert [client.get(path).text for path in ("/runs/a", "/runs/a", "/runs/b/c", "/runs/a")] == [
        "a 1", "a 1", "b/c 2", "a 1",
    ]  # fmt: skip
    commits.append("two")
    assert client.get("/runs/a").text == "a 3"
