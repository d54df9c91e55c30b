"""Download or read the chosen corpus, verify its content, and write it as a collection of works."""

import hashlib
import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

from bukva.config.messages import shorten
from bukva.config.schema import Download
from bukva.core.errors import BukvaError, ParamsError
from bukva.core.files import atomic_folder, resolve_existing, sha256
from bukva.corpus.sources.archives import is_archive, unpack
from bukva.corpus.sources.fetching import OnBytes, OnNote, fetch, obtain
from bukva.corpus.sources.formats import conversion, reader_of_zip
from bukva.corpus.sources.formats.base import printable
from bukva.corpus.sources.huggingface import fetch_dataset
from bukva.corpus.sources.works import (
    SPECIAL,
    Findings,
    ReadOptions,
    Work,
    is_special,
    texts_of,
    types_read,
    work_in_file,
    works_in_folder,
)
from bukva.text.collection import MISSING, write_collection

PDF = b"%PDF-"
REGISTRY = Path(__file__).with_name("sources.yaml")


@dataclass(frozen=True)
class Source:
    """One corpus of sources.yaml, either a single text or an archive.

    Attributes:
        url: address of the text or archive.
        file: name of the file in a mirror (BUKVA_MIRROR).
        sha256: digest of a single text.
        root: folder in the archive that contains the folders with works.
        folders: digest (see folder_digest) of each folder below `root` that is read. Other folders are ignored.
        encodings: encoding of each work that is not UTF-8, by its path below `root`.
    """

    url: str
    file: str
    sha256: str = ""
    root: str = ""
    folders: Mapping[str, str] = field(default_factory=dict)
    encodings: Mapping[str, str] = field(default_factory=dict)


def download(params: Download, target: Path, on_bytes: OnBytes, note: OnNote) -> dict[str, int]:
    """Write the chosen corpus as a collection to the folder `target`. If this raises, `target` is unchanged.

    Returns:
        The numbers of works, authors, categories, characters and bytes, and the number of findings of each kind
        (see KINDS in works.py).

    Raises:
        ParamsError: the corpus is missing or unreachable, differs from its digest, or has no readable text; or, in
            strict mode, one of its files or rows is unreadable.
    """
    options = _read_options(params)
    findings = options.findings
    try:
        # scratch lies in the unfinished folder, so it is on the same disk and is deleted with that folder after a kill
        with atomic_folder(target) as folder, tempfile.TemporaryDirectory(dir=folder) as scratch:
            works = _list_works(params, options, Path(scratch), on_bytes, note)
            table = write_collection(folder, texts_of(works, findings), findings.leave_out)
            if table.empty:
                raise BukvaError(" ".join([f"{params.corpus}: no file has readable text.", *findings.sentences()]))
    except BukvaError as error:
        raise ParamsError(str(error)) from None  # DVC has already removed the previous corpus
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


def _read_options(params: Download) -> ReadOptions:
    """Return how the files are read. `sample` and the corpora of sources.yaml are always read strictly and as UTF-8."""
    if params.corpus not in ("local", "url", "huggingface"):
        return ReadOptions(Findings(strict=True))
    return ReadOptions(Findings(params.strict), params.encoding, params.text_column, tuple(params.extensions))


def _list_works(params: Download, options: ReadOptions, scratch: Path, on_bytes: OnBytes, note: OnNote) -> list[Work]:
    """Download the corpus into `scratch`, unless it is local, and return its works. Their texts are not read yet."""
    match params.corpus:
        case "sample" | "local":
            return _local(params.path, options)
        case "url":
            file = scratch / "fetched" / _file_name(params.url)
            fetch(params.url, file, on_bytes, params.sha256)
            if reader := reader_of_zip(file):
                return work_in_file(file, file.name, options, reader)
            return _in_archive(file, scratch, options) if is_archive(file) else _downloaded_file(file, options)
        case "huggingface":
            folder, is_read = scratch / "fetched", lambda path: options.reader(path) is not None
            fetch_dataset(params.dataset, params.revision, params.files, is_read, folder, on_bytes)
            # the folders of a dataset are its parts (data, train, en), not authors
            return works_in_folder(folder, params.dataset, options, levels=False)
        case name:
            return _registered(registry()[name], options, scratch, on_bytes, note)


def _downloaded_file(file: Path, options: ReadOptions) -> list[Work]:
    """Return the works in a downloaded file. A PDF is recognized by its content, because its URL may not end in .pdf.

    Raises:
        BukvaError: the file has to be converted first.
    """
    with file.open("rb") as content:
        name = f"{file.name}.pdf" if content.read(len(PDF)) == PDF else file.name
    if not options.reader(Path(name)) and (command := conversion(name)):
        advice = f"Download it yourself, convert it with `{command}`, and use the result with download.corpus=local."
        raise BukvaError(f"{file.name}: files of this type are not read. {advice}")
    return work_in_file(file, file.name, options)


def _local(path: str, options: ReadOptions) -> list[Work]:
    location = resolve_existing(path)
    if not location:
        why = "does not exist"
    elif location.is_dir():
        return works_in_folder(location, path, options)
    elif is_special(location):
        why = SPECIAL
    elif not options.reader(location) and (command := conversion(path)):
        raise BukvaError(
            f"params.yaml, download.path: {shorten(path)} is of a type that is not read. Convert it with `{command}`."
        )
    elif not options.reader(location):
        plain = f"add {location.suffix} to download.extensions" if location.suffix else "rename it to .txt"
        raise BukvaError(
            f"params.yaml, download.path: {shorten(path)} is not a {types_read()} file. If it is plain text, {plain}."
        )
    else:
        return work_in_file(location, path, options)
    raise BukvaError(f"params.yaml, download.path: {shorten(path)} {why}. Use a folder of texts or a single text.")


def _registered(source: Source, options: ReadOptions, scratch: Path, on_bytes: OnBytes, note: OnNote) -> list[Work]:
    """Download and verify a corpus of sources.yaml; return its works."""
    file = obtain(source.url, source.file, scratch / "fetched", on_bytes, note, source.sha256)
    if not source.folders:
        return work_in_file(file, file.name, options)
    unpack(file, scratch / "unpacked")
    root = scratch / "unpacked" / source.root
    for name, expected in source.folders.items():
        actual = folder_digest(root / name) if (root / name).is_dir() else "missing"
        if actual != expected:
            raise BukvaError(
                f"{file.name}, folder {name}: its SHA-256 is {actual}, not {expected}."
                f" Use the archive from {source.url}."
            )
    return works_in_folder(root, file.name, options, source.folders, source.encodings)


def folder_digest(folder: Path) -> str:
    """Return the SHA-256 digest of all files below a folder, over their names and contents, in hexadecimal digits.

    This command, run in the folder, prints the same digest:
    `find * -type f -print0 | LC_ALL=C sort -z | xargs -0 sha256sum -z | sha256sum`.
    """
    files = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    digest = hashlib.sha256()
    for name in sorted(files):
        digest.update(f"{sha256(files[name])}  {name}\0".encode())
    return digest.hexdigest()


def _in_archive(archive: Path, scratch: Path, options: ReadOptions) -> list[Work]:
    """Unpack an archive into `scratch` and return its works."""
    folder = scratch / "unpacked"
    for name in unpack(archive, folder):
        options.findings.add("zip_names_guessed", printable(name))
    # Most archives contain a single top folder, which is not an author. macOS adds a folder __MACOSX next to it.
    top = [entry for entry in folder.iterdir() if not entry.name.startswith((".", "__MACOSX"))]
    root = top[0] if len(top) == 1 and top[0].is_dir() else folder
    return works_in_folder(root, archive.name, options)


def _file_name(url: str) -> str:
    """Return the last part of a URL as a file name, in which `_` replaces special characters other than `( ) , . -`."""
    name = PurePosixPath(unquote(urlsplit(url).path)).name
    return re.sub(r"[^\w(),.-]+", "_", name)[-80:].strip("._") or "text"
