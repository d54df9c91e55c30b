"""Read the corpus that download.corpus names from disk or download it, and write it as a collection of works.

Downloaded content is verified if its digest is known.
"""

import hashlib
import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

from bukva.core.errors import BukvaError, ParamsError
from bukva.core.files import atomic_folder, resolve_existing, sha256
from bukva.core.messages import shorten
from bukva.core.schema import DATASET, Download
from bukva.corpus.sources.archives import is_archive, unpack
from bukva.corpus.sources.fetching import OnBytes, OnNote, fetch, obtain
from bukva.corpus.sources.formats import conversion, reader_of_zip
from bukva.corpus.sources.formats.base import printable
from bukva.corpus.sources.huggingface import fetch_dataset
from bukva.corpus.sources.works import (
    SPECIAL,
    Findings,
    ReadOptions,
    Texts,
    is_special,
    texts_in_folder,
    texts_of_file,
    types_read,
)
from bukva.text.collection import MISSING, write_collection

PDF = b"%PDF-"
REGISTRY = Path(__file__).with_name("sources.yaml")


@dataclass(frozen=True)
class Source:
    """One corpus of sources.yaml, which is a single text or an archive of texts. Keys of the mappings are paths."""

    url: str
    file: str  # file name of the text or archive in the mirror (see `obtain` in fetching.py)
    sha256: str = ""  # digest of a single text
    root: str = ""  # folder inside the archive, below which the other paths are
    folders: Mapping[str, str] = field(default_factory=dict)  # digest of each folder to read (see `folder_digest`)
    encodings: Mapping[str, str] = field(default_factory=dict)  # encoding of each work that is not UTF-8


def download(params: Download, target: Path, on_bytes: OnBytes, note: OnNote) -> dict[str, int]:
    """Read or download the corpus that `params` names, and write it to the folder `target` as a collection.

    After an error, `target` is unchanged. `on_bytes` shows the progress of a transfer. `note` is called with each
    message for the user, such as the names of files that were left out.

    Returns:
        The metrics of stage download, by name: numbers of works, authors, categories, characters, bytes and works
        without a year, and the number of findings for each key of KINDS in works.py.

    Raises:
        ParamsError: the corpus is missing or cannot be downloaded, differs from its digest, or has no readable text.
    """
    if params.corpus in ("local", "url", "huggingface"):
        findings = Findings()
        options = ReadOptions(findings, params.encoding, params.text_column, params.extensions)
    else:
        findings = Findings(strict=True)
        options = ReadOptions(findings)
    try:
        # `scratch` is inside the unfinished folder, so it is on the same disk and is deleted with this folder, even
        # after a kill
        with atomic_folder(target) as folder, tempfile.TemporaryDirectory(dir=folder) as scratch:
            texts = _texts(params, options, Path(scratch), on_bytes, note)
            table = write_collection(folder, texts)
            if table.empty:
                raise BukvaError(" ".join([f"{params.corpus}: no file has readable text.", *findings.sentences()]))
    except BukvaError as error:
        # DVC has already removed the old corpus. The message of a ParamsError also says how to undo the edit of
        # params.yaml.
        raise ParamsError(str(error)) from None
    for sentence in findings.sentences():
        note(f"download: {sentence}")
    return {
        "works": len(table),
        "authors": len(set(table["author"]) - {MISSING}),
        "categories": len(set(table["category"]) - {MISSING}),
        "chars": int(table["chars"].sum()),
        "bytes": int(table["bytes"].sum()),
        "works_without_year": int(table["year"].isna().sum()),
        **findings.counts,
    }


def registry() -> dict[str, Source]:
    """Return the corpora of sources.yaml by name."""
    import yaml

    return {name: Source(**keys) for name, keys in yaml.safe_load(REGISTRY.read_text(encoding="utf-8")).items()}


def _texts(params: Download, options: ReadOptions, scratch: Path, on_bytes: OnBytes, note: OnNote) -> Texts:
    match params.corpus:
        case "sample" | "local":
            return _local(params.path, options)
        case "url":
            file = scratch / "fetched" / _file_name(params.url)
            fetch(params.url, file, on_bytes, params.sha256)
            if reader := reader_of_zip(file):
                return texts_of_file(file, file.name, options, reader)
            return _in_archive(file, scratch, options, note) if is_archive(file) else _downloaded_file(file, options)
        case "huggingface":
            folder, is_read = scratch / "fetched", lambda path: options.reader(path) is not None
            dataset, commit, files = DATASET.findall(params.url)[0]
            fetch_dataset(dataset, commit, files or "*", is_read, folder, on_bytes)
            # the folders of a dataset have names such as data, train or en; they are not authors
            return texts_in_folder(folder, dataset, options, levels=False)
        case name:
            return _registered(registry()[name], options, scratch, on_bytes, note)


def _downloaded_file(file: Path, options: ReadOptions) -> Texts:
    with file.open("rb") as content:
        name = f"{file.name}.pdf" if content.read(len(PDF)) == PDF else file.name
    if not options.reader(Path(name)) and (command := conversion(name)):
        advice = f"Download the file, convert it with `{command}`, and read the result with download.corpus=local."
        raise BukvaError(f"{file.name}: files of this type cannot be read. {advice}")
    return texts_of_file(file, file.name, options)


def _local(path: str, options: ReadOptions) -> Texts:
    location = resolve_existing(path)
    advice = "Use a folder of texts or a single text."
    if not location:
        why = "does not exist"
    elif location.is_dir():
        return texts_in_folder(location, path, options)
    elif is_special(location):
        why = SPECIAL
    elif options.reader(location):
        return texts_of_file(location, path, options)
    elif command := conversion(path):
        why, advice = "has a type that cannot be read", f"Convert it with `{command}`."
    else:
        why = f"is not a {types_read()} file"
        plain = f"add {location.suffix} to download.extensions" if location.suffix else "rename it to .txt"
        advice = f"If it is plain text, {plain}."
    raise BukvaError(f"params.yaml, download.path: {shorten(path)} {why}. {advice}")


def _registered(source: Source, options: ReadOptions, scratch: Path, on_bytes: OnBytes, note: OnNote) -> Texts:
    file = obtain(source.url, source.file, scratch / "fetched", on_bytes, note, source.sha256)
    if not source.folders:
        return texts_of_file(file, file.name, options)
    unpack(file, scratch / "unpacked")
    root = scratch / "unpacked" / source.root
    for name, expected in source.folders.items():
        actual = folder_digest(root / name) if (root / name).is_dir() else "missing (there is no such folder)"
        if actual != expected:
            raise BukvaError(
                f"{file.name}, folder {name}: its SHA-256 is {actual}, not {expected}."
                f" Use the archive from {source.url}."
            )
    return texts_in_folder(root, file.name, options, source.folders, source.encodings)


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


def _in_archive(archive: Path, scratch: Path, options: ReadOptions, note: OnNote) -> Texts:
    """Unpack an archive, and return its texts."""
    # If one folder contains everything else, it is an author if its files are in no further folder. Otherwise its name
    # is ignored. An example is the folder REPOSITORY-COMMIT in an archive from GitHub.
    folder = scratch / "unpacked"
    for name in unpack(archive, folder):
        options.findings.add("zip_names_guessed", printable(name))
    # macOS adds a second folder, __MACOSX
    top = [entry for entry in folder.iterdir() if not entry.name.startswith((".", "__MACOSX"))]
    if len(top) != 1 or not top[0].is_dir():
        return texts_in_folder(folder, archive.name, options)
    files = [path.relative_to(folder) for path in top[0].rglob("*") if path.is_file() and options.reader(path)]
    depth = max((len(path.parts) for path in files if "/." not in f"/{path.as_posix()}"), default=0)
    name = printable(top[0].name)
    if depth == 2:
        note(
            f"download: {archive.name}: its only folder, {name}, is the author of all works. If it is not an author, "
            "pack the files without the folder."
        )
        return texts_in_folder(folder, archive.name, options, (top[0].name,))
    if depth == 3:  # a guess; with one more level of folders, the outermost is surely a wrapper
        note(
            f"download: {archive.name}: the folders inside {name} are the authors. If {name} is a category, "
            "pack it inside another folder."
        )
    return texts_in_folder(top[0], archive.name, options)


def _file_name(url: str) -> str:
    """Return a safe file name, made from the last part of the path of a URL."""
    name = PurePosixPath(unquote(urlsplit(url).path)).name
    return re.sub(r"[^\w(),.-]+", "_", name)[-80:].strip("._") or "text"
