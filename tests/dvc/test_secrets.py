"""A token in download.url reaches the files of the user and of DVC, and nothing that bukva writes, sends or prints."""

import json
import zipfile
from hashlib import sha256

import pytest
import typer
from corpus.serving import Server, serving

from bukva.cli.app import app
from tests.support.project import WORK

TOKEN = "TOPSECRET"
# DVC needs the whole URL, and keeps it in its run cache and in the commits of experiments
OWN = "params.yaml", "dvc.lock", ".dvc", ".git"
NOT_RUN = {"judge", "plan", "play", "push", "seeds", "sweep", "ui"}  # these train, serve, or need a remote
ARGUMENTS = {"compare": ["HEAD", "other"], "verify": ["other"]}


def content(file):
    if file.suffix != ".zip":  # `is_zipfile` also takes bytecode for an archive that has the magic number of one
        return file.read_bytes()
    with zipfile.ZipFile(file) as archive:
        return b"".join(map(archive.read, archive.namelist()))


@pytest.mark.nightly
def test_a_token_of_a_url_is_in_nothing_that_bukva_writes_sends_or_prints(template, tmp_path):
    project = template.copy_to(tmp_path / "bukva")
    body = b"".join(file.read_bytes() for file in sorted((project.folder / WORK).parent.glob("*.txt")))
    with serving(server := Server()) as server.address:
        url = server.has("/t.txt", body)
        secret = {"corpus": "url", "url": f"{url}?key={TOKEN}", "sha256": sha256(body).hexdigest()}
        project.set({"download": secret})
        printed = project.run("dvc", "repro")
        project.commit("url")
        other = f"download.url='{url}?key={TOKEN}2'"
        printed += project.run("dvc", "exp", "run", "-n", "other", "-S", other, "-S", "model.n_head=2")
    assert len({path for path in server.requested if TOKEN in path}) == 2
    for command in sorted(typer.main.get_command(app).commands.keys() - NOT_RUN):
        arguments = command, *ARGUMENTS.get(command, [])
        printed += project.run("python", "-m", "bukva", *arguments, PYTHONPATH="src", COLUMNS="300")
    board = json.loads(project.bukva("experiments", "--json"))
    assert board["text"].startswith(f"url ({url}), ")
    assert None not in [row["seconds"] for row in board["rows"]]  # found, although records have no query
    runs = [run for run in project.mlflow() if not run["parent"]]
    assert {run["params"]["download.url"] for run in runs if run["params"]["download.corpus"] == "url"} == {url}
    assert "bukva.against.HEAD.gpt.val" in {name for run in runs for name in run["tags"]}
    sent = {file.name for run in runs for file in run["artifacts"].rglob("*")}
    assert {"dvc.lock", "index.html", "HEAD-gpt-val.md"} <= sent
    files = {file.relative_to(project.folder): file for file in project.folder.rglob("*") if file.is_file()}
    found = [path for path, file in files.items() if TOKEN.encode() in content(file)]
    assert TOKEN not in f"{printed}{board}"
    assert [str(path) for path in found if path.parts[0] not in OWN] == []
    assert TOKEN in project.read("dvc.lock")
