"""Read the corpus that download.corpus names from disk or download it, and write it as a collection of works."""

import hashlib
import re
import tempfile
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote, urlsplit

from bukva.core.errors import BukvaError, ParamsError
from bukva.core.files import atomic_folder, sha256
from bukva.core.schema import DATASET, Download
from bukva.corpus.sources.archives import is_archive, unpack
from bukva.corpus.sources.fetching import OnBytes, OnNote, fetch, fetch_dataset, obtain
from bukva.corpus.sources.formats import READERS, conversion, real_extension
from bukva.corpus.sources.formats.base import printable
from bukva.corpus.sources.formats.books import is_epub
from bukva.corpus.sources.works import Reading, Texts, files_in, texts_at, texts_in_folder, texts_of_file
from bukva.text.collection import MISSING, write_collection

REGISTRY = Path(__file__).with_name("sources.yaml")


def download(params: Download, target: Path, on_bytes: OnBytes, note: OnNote) -> dict[str, int]:
    """Read or download the corpus that `params` names, and write it to the folder `target` as a collection.

    After an error, which is a ParamsError, `target` is unchanged. `on_bytes` shows the progress of a transfer. `note`
    is called with each message for the user, such as the names of files that were left out. Returns the metrics of
    stage download, with the number of findings for each key of KINDS in works.py.
    """
    is_own = params.corpus in ("local", "url", "huggingface")
    reading = Reading(params.encoding, params.text_column, params.extensions) if is_own else Reading(strict=True)
    try:
        # `scratch` is inside the unfinished folder, so it is on the same disk and is deleted with it, even after a kill
        with atomic_folder(target) as folder, tempfile.TemporaryDirectory(dir=folder) as scratch:
            table = write_collection(folder, _texts(params, reading, Path(scratch), on_bytes, note))
            if table.empty:
                raise BukvaError(" ".join([f"{params.corpus}: no file has readable text.", *reading.sentences()]))
    except BukvaError as error:
        # DVC has already removed the old corpus; for a ParamsError, a stage also prints how to undo the edit
        raise ParamsError(str(error)) from None
    for sentence in reading.sentences():
        note(f"download: {sentence}")
    return {
        "works": len(table),
        "authors": len(set(table["author"]) - {MISSING}),
        "categories": len(set(table["category"]) - {MISSING}),
        "chars": int(table["chars"].sum()),
        "bytes": int(table["bytes"].sum()),
        "works_without_year": int(table["year"].isna().sum()),
        **reading.counts,
    }


def registry() -> dict[str, dict[str, Any]]:
    """Return the corpora of sources.yaml by name."""
    import yaml

    return dict(yaml.safe_load(REGISTRY.read_text(encoding="utf-8")))


def _texts(params: Download, reading: Reading, scratch: Path, on_bytes: OnBytes, note: OnNote) -> Texts:
    folder = scratch / "fetched"
    match params.corpus:
        case "sample" | "local":
            return texts_at(params.path, reading)
        case "url":
            file = folder / _file_name(params.url)
            fetch(params.url, file, on_bytes, params.sha256)
            if reader := READERS.get(real_extension(file)):
                return texts_of_file(file, file.name, reading, reader)
            return _in_archive(file, scratch, reading, note) if is_archive(file) else _downloaded_file(file, reading)
        case "huggingface":
            dataset, commit, files = DATASET.findall(params.url)[0]
            fetch_dataset(dataset, commit, files or "*", lambda path: bool(reading.reader(path)), folder, on_bytes)
            # the folders of a dataset have names such as data, train or en; they are not authors
            return texts_in_folder(folder, dataset, reading, levels=False)
        case name:
            source = registry()[name]
            file = obtain(source["url"], source["file"], folder, on_bytes, note, source.get("sha256", ""))
            if "folders" not in source:
                return texts_of_file(file, file.name, reading)
            return _in_registered_archive(file, source, scratch / "unpacked", reading)


def _file_name(url: str) -> str:
    """Return a safe file name, made from the last part of the path of a URL."""
    name = PurePosixPath(unquote(urlsplit(url).path)).name
    return re.sub(r"[^\w(),.-]+", "_", name)[-80:].strip("._") or "text"


def _downloaded_file(file: Path, reading: Reading) -> Texts:
    name = file.name if conversion(file.name) else f"{file.name}{real_extension(file)}"
    if not reading.reader(Path(name)) and (command := conversion(name)):
        advice = f"Download the file, convert it with `{command}`, and read the result with download.corpus=local."
        raise BukvaError(f"{file.name}: files of this type cannot be read. {advice}")
    return texts_of_file(file, file.name, reading)


def _in_archive(archive: Path, scratch: Path, reading: Reading, note: OnNote) -> Texts:
    """Unpack an archive, and return its texts."""
    # If one folder contains everything else, it is an author if its files are in no further folder. Otherwise its name
    # is ignored, such as REPOSITORY-COMMIT in an archive from GitHub.
    folder = scratch / "unpacked"
    for name in unpack(archive, folder):
        reading.add("zip_names_guessed", printable(name))
    # macOS adds a second folder, __MACOSX
    top = [entry for entry in folder.iterdir() if not entry.name.startswith((".", "__MACOSX"))]
    if len(top) != 1 or not top[0].is_dir() or is_epub(top[0]):
        return texts_in_folder(folder, archive.name, reading)
    files = filter(reading.reader, files_in(top[0]))
    depth = max((len(path.relative_to(folder).parts) for path in files), default=0)
    name = printable(top[0].name)
    if depth == 2:
        advice = "If it is not an author, pack the files without the folder."
        note(f"download: {archive.name}: its only folder, {name}, is the author of all works. {advice}")
        return texts_in_folder(folder, archive.name, reading, (top[0].name,))
    if depth == 3:  # a guess; with one more level of folders, the outermost is surely a wrapper
        advice = f"If {name} is a category, pack it inside another folder."
        note(f"download: {archive.name}: the folders inside {name} are the authors. {advice}")
    return texts_in_folder(top[0], archive.name, reading)


def _in_registered_archive(archive: Path, source: dict[str, Any], folder: Path, reading: Reading) -> Texts:
    unpack(archive, folder)
    root = folder / source["root"]
    for name, expected in source["folders"].items():
        actual = folder_digest(root / name) if (root / name).is_dir() else "missing (there is no such folder)"
        if actual != expected:
            why = f"its SHA-256 is {actual}, not {expected}. Use the archive from {source['url']}."
            raise BukvaError(f"{archive.name}, folder {name}: {why}")
    return texts_in_folder(root, archive.name, reading, source["folders"], source["encodings"])


def folder_digest(folder: Path) -> str:
    """Return a SHA-256 digest of the names and contents of all files below a folder, as hexadecimal digits.

    The following command prints the same digest when it is run in that folder:
    `find * -type f -print0 | LC_ALL=C sort -z | xargs -0 sha256sum -z | sha256sum`.
    """
    files = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    digest = hashlib.sha256()
    for name in sorted(files):
        digest.update(f"{sha256(files[name])}  {name}\0".encode())
    return digest.hexdigest()
