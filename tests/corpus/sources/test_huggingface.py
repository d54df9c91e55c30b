"""A dataset of the Hugging Face hub, from a local server that speaks the endpoints that are used."""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from corpus.serving import send, serving
from corpus.sources.formats.made import parquet
from downloads import get
from works import texts_in

from bukva.core.errors import BukvaError
from bukva.text.collection import Work

COMMIT, NEWEST = "a" * 40, "b" * 40
API, FILES = "/api/datasets/owner/name", f"/datasets/owner/name/resolve/{COMMIT}/"


@dataclass
class Hub:
    """A hub with one dataset; tests change what it answers."""

    address: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    listed: dict[str, bytes] | None = None  # the files as the commit records them, if not as they are sent
    lfs: set[str] = field(default_factory=set)
    everything: tuple[int, dict[str, str], bytes] | None = None  # the answer to every request
    requests: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)

    def siblings(self) -> Iterator[dict[str, object]]:
        for name, raw in (self.files if self.listed is None else self.listed).items():
            blob = hashlib.sha1(f"blob {len(raw)}\0".encode() + raw).hexdigest()
            lfs = {"lfs": {"size": len(raw), "sha256": hashlib.sha256(raw).hexdigest(), "pointerSize": 1}}
            yield {"rfilename": name, "size": len(raw), "blobId": blob, **(lfs if name in self.lfs else {})}

    def answer(self, path: str) -> tuple[int, dict[str, str], bytes]:
        if self.everything:
            return self.everything
        if path.startswith(API):
            revision = path.removeprefix(API).removeprefix("/revision/") or NEWEST
            if revision not in (COMMIT, NEWEST, "main"):
                return 404, {"X-Error-Code": "RevisionNotFound"}, b""
            sha = NEWEST if revision == "main" else revision
            return 200, {}, json.dumps({"id": "owner/name", "sha": sha, "siblings": [*self.siblings()]}).encode()
        name = unquote(path.removeprefix(FILES))
        if name not in self.files:
            return 404, {"X-Error-Code": "RepoNotFound"}, b""
        return 200, {"X-Repo-Commit": COMMIT, "ETag": '"1"'}, self.files[name]

    def __call__(self, request: BaseHTTPRequestHandler) -> None:
        path = urlsplit(request.path).path
        self.requests.append((request.command, path, dict(request.headers)))
        status, headers, body = self.answer(path)
        sent = b"" if request.command == "HEAD" else body
        send(request, sent, {"Content-Length": len(body)} | headers, status)


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    for variable in ("HF_TOKEN", "HF_HUB_OFFLINE"):
        monkeypatch.delenv(variable, raising=False)
    made = Hub()
    with serving(made) as made.address:
        monkeypatch.setenv("HF_ENDPOINT", made.address)
        yield made
    from huggingface_hub.utils import close_session

    close_session()


def fetch(target: Path, revision: str = f"@{COMMIT}", files: str = "") -> object:
    return get(target, "huggingface", url=f"hf://datasets/owner/name{revision}{files}")


def fails(target: Path, words: str, **changes: str) -> None:
    with pytest.raises(BukvaError, match=words) as error:
        fetch(target, **changes)
    assert "\n" not in str(error.value)
    assert not target.exists()


def test_the_chosen_files_of_known_types_become_texts_without_the_card(hub, target, tmp_path) -> None:
    hub.files = {
        "README.md": b"# Card",
        ".gitattributes": b"x",
        "data/train-0.parquet": parquet(tmp_path / "a", {"text": ["раз", "два"]}).read_bytes(),
        "docs/note 1.txt": "ж".encode(),
        "model.bin": b"\xff",
        "../evil.txt": b"x",
        "a\\..\\evil.txt": b"x",
        "/evil.txt": b"x",
        ".cache/evil.txt": b"x",
    }
    hub.lfs = {"data/train-0.parquet"}
    fetch(target)
    assert texts_in(target) == {
        Work("-", "-", "data/train-0.parquet#000000001"): "раз",
        Work("-", "-", "data/train-0.parquet#000000002"): "два",
        Work("-", "-", "docs/note 1"): "ж",
    }
    assert sorted(path.name for path in target.iterdir()) == ["documents.parquet", "text.txt"]
    assert not [path for _, path, _ in hub.requests if "model.bin" in path or "README" in path or "evil" in path]
    fetch(target, files="/docs/*")
    assert list(texts_in(target).values()) == ["ж"]
    with pytest.raises(BukvaError, match=r"^params\.yaml, download\.url: '\*\.csv' matches no file of owner/name"):
        fetch(target, files="/*.csv")


@pytest.mark.parametrize(
    ("revision", "why"), [("", "may change"), ("@main", "may change"), (f"@{'c' * 40}", f"has no commit {'c' * 40}")]
)
def test_a_revision_that_is_no_commit_or_unknown_is_an_error_that_names_the_newest(revision, why, hub, target) -> None:
    advice = f"Use the newest commit: hf://datasets/owner/name@{NEWEST}"
    fails(target, rf"^params\.yaml, download\.url: .* {why}\. {advice}$", revision=revision)


def test_what_is_no_hub_or_does_not_answer_is_an_error(hub, target, monkeypatch) -> None:
    hub.everything = 200, {}, b"<html>Please log in</html>"
    why = r"there is no connection, or the server is not a Hugging Face hub \(\w+\)"
    fails(target, rf"^{hub.address}/datasets/owner/name: {why}\. Check the network and")
    hub.everything = 503, {}, b""
    fails(target, r"the hub responded with status 503\. Check the network and")
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:1")
    fails(target, r"^http://127\.0\.0\.1:1/datasets/owner/name: there is no connection, or")


@pytest.mark.parametrize("lfs", [False, True])
def test_a_file_with_another_digest_than_the_commit_records_is_an_error(lfs, hub, target) -> None:
    hub.listed, hub.files, hub.lfs = {"a.txt": b"x"}, {"a.txt": b"y"}, {"a.txt"} if lfs else set()
    words = r"^owner/name, a\.txt: its digest is [0-9a-f]+, but in the commit it is [0-9a-f]+\. Run the same"
    fails(target, words)


def test_the_token_comes_from_the_environment_and_is_in_no_error(hub, target, monkeypatch) -> None:
    hub.files = {"a.txt": b"x"}
    fetch(target)
    assert not [headers for _, _, headers in hub.requests if "authorization" in {name.lower() for name in headers}]
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    hub.requests.clear()
    fetch(target)
    assert {headers["authorization"] for _, _, headers in hub.requests} == {"Bearer hf_secret"}
    hub.everything = 403, {}, b""
    with pytest.raises(BukvaError, match=r"^((?!hf_secret).)*$"):
        fetch(target)


@pytest.mark.slow
def test_nothing_is_written_outside_of_the_target_and_no_telemetry_is_sent(hub, tmp_path) -> None:
    hub.files, home = {"a.txt": b"x"}, tmp_path / "home"
    token = home / ".cache" / "huggingface" / "token"
    token.parent.mkdir(parents=True)
    token.write_text("hf_secret")  # of another program, for which nobody asked
    tests = Path(__file__).parents[2]
    env = {"HOME": str(home), "HF_ENDPOINT": hub.address, "PYTHONPATH": f"{tests.parent / 'src'}:{tests}"}
    env |= {name: value for name, value in os.environ.items() if name in ("PATH", "TMPDIR")}
    call = f"get(Path({str(tmp_path / 'raw')!r}), 'huggingface', url='hf://datasets/owner/name@{COMMIT}')"
    program = f"from pathlib import Path; from downloads import get; {call}"
    run = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True)
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")
    assert [path for path in home.rglob("*") if path.is_file()] == [token]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["home", "raw"]
    assert {path for _, path, _ in hub.requests} == {f"{API}/revision/{COMMIT}", f"{FILES}a.txt"}
    assert not [headers for _, _, headers in hub.requests if "torch" in str(headers) or "hf_secret" in str(headers)]
