"""Where a corpus comes from, how its content is verified, and how it becomes a collection."""

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
from bukva.core.files import atomic_folder, existing, sha256
from bukva.corpus.sources.archives import is_archive, unpack
from bukva.corpus.sources.fetching import OnBytes, OnNote, fetch, obtain
from bukva.corpus.sources.formats import conversion, reader_of_zip
from bukva.corpus.sources.formats.base import printable
from bukva.corpus.sources.huggingface import fetch_dataset
from bukva.corpus.sources.works import (
    SPECIAL,
    Findings,
    Reading,
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
    """A corpus of sources.yaml: its address, where its works are, and the digests of its content.

    The content is verified by `sha256`, the digest of one text, or by `folders`, those of folders below `root` in an
    archive (folder_digest); only these folders are read. `file` is the name in a mirror, and `encodings` are those of
    works that are not UTF-8, by their path below `root`.
    """

    url: str
    file: str
    sha256: str = ""
    root: str = ""
    folders: Mapping[str, str] = field(default_factory=dict)
    encodings: Mapping[str, str] = field(default_factory=dict)


def download(params: Download, target: Path, on_bytes: OnBytes, note: OnNote) -> dict[str, int]:
    """Make `target` the collection of the chosen corpus: complete, or unchanged if this raises.

    Returns:
        What it contains, and what it leaves out or guesses (works.KINDS).

    Raises:
        BukvaError: the corpus is missing or unreachable, differs from its digest, or contains something that is not
            text.
    """
    reading = _reading(params)
    findings = reading.findings
    try:
        # scratch is in the unfinished folder: on the same disk, and deleted with it after a kill
        with atomic_folder(target) as folder, tempfile.TemporaryDirectory(dir=folder) as scratch:
            found = _find(params, reading, Path(scratch), on_bytes, note)
            table = write_collection(folder, texts_of(found, findings), findings.leave_out)
            if table.empty:
                raise BukvaError(" ".join([f"{params.corpus}: no file has readable text.", *findings.sentences()]))
    except BukvaError as error:
        raise ParamsError(str(error)) from None  # DVC has already removed the former corpus
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
    """The corpora of sources.yaml by name."""
    import yaml

    return {name: Source(**keys) for name, keys in yaml.safe_load(REGISTRY.read_text(encoding="utf-8")).items()}


def _reading(params: Download) -> Reading:
    """How the files of a corpus are read. The corpora that come with bukva are always read strictly and as UTF-8."""
    if params.corpus not in ("local", "url", "huggingface"):
        return Reading(Findings(strict=True))
    return Reading(Findings(params.strict), params.encoding, params.text_column, tuple(params.extensions))


def _find(params: Download, reading: Reading, scratch: Path, on_bytes: OnBytes, note: OnNote) -> list[Work]:
    match params.corpus:
        case "sample" | "local":
            return _local(params.path, reading)
        case "url":
            file = scratch / "fetched" / _file_name(params.url)
            fetch(params.url, file, on_bytes, params.sha256)
            if reader := reader_of_zip(file):
                return work_in_file(file, file.name, reading, reader)
            return _in_archive(file, scratch, reading) if is_archive(file) else _at_address(file, reading)
        case "huggingface":
            folder, is_read = scratch / "fetched", lambda path: reading.reader(path) is not None
            fetch_dataset(params.dataset, params.revision, params.files, is_read, folder, on_bytes)
            # folders of datasets are their parts (data, train, en), so none is an author
            return works_in_folder(folder, params.dataset, reading, levels=False)
        case name:
            return _registered(registry()[name], reading, scratch, on_bytes, note)


def _at_address(file: Path, reading: Reading) -> list[Work]:
    """The work in a file that was fetched. Its address may not say that it is a PDF."""
    with file.open("rb") as content:
        name = f"{file.name}.pdf" if content.read(len(PDF)) == PDF else file.name
    if not reading.reader(Path(name)) and (command := conversion(name)):
        advice = "fetch it yourself, and use the result with corpus local"
        raise BukvaError(f"{file.name}: is not read before it is converted ({command}); {advice}.")
    return work_in_file(file, file.name, reading)


def _local(path: str, reading: Reading) -> list[Work]:
    place = existing(path)
    if not place:
        why = "does not exist"
    elif place.is_dir():
        return works_in_folder(place, path, reading)
    elif is_special(place):
        why = SPECIAL
    elif not reading.reader(place) and (command := conversion(path)):
        raise BukvaError(f"params.yaml, download.path: {shorten(path)} is not read before it is converted: {command}")
    elif not reading.reader(place):
        plain = f"add {place.suffix} to download.extensions" if place.suffix else "rename it to .txt"
        raise BukvaError(
            f"params.yaml, download.path: {shorten(path)} is not a {types_read()} file; if it is plain text, {plain}."
        )
    else:
        return work_in_file(place, path, reading)
    raise BukvaError(f"params.yaml, download.path: {shorten(path)} {why}; use a folder of texts, or one text.")


def _registered(source: Source, reading: Reading, scratch: Path, on_bytes: OnBytes, note: OnNote) -> list[Work]:
    file = obtain(source.url, source.file, scratch / "fetched", on_bytes, note, source.sha256)
    if not source.folders:
        return work_in_file(file, file.name, reading)
    unpack(file, scratch / "unpacked")
    root = scratch / "unpacked" / source.root
    for name, expected in source.folders.items():
        actual = folder_digest(root / name) if (root / name).is_dir() else "missing"
        if actual != expected:
            raise BukvaError(
                f"{file.name}, folder {name}: its SHA-256 is {actual}, not {expected};"
                f" use the archive that {source.url} provides."
            )
    return works_in_folder(root, file.name, reading, source.folders, source.encodings)


def folder_digest(folder: Path) -> str:
    """The SHA-256 digest of the files in a folder, their names and their content, in hexadecimal digits.

    Equal to `find * -type f -print0 | LC_ALL=C sort -z | xargs -0 sha256sum -z | sha256sum` in it.
    """
    files = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    digest = hashlib.sha256()
    for name in sorted(files):
        digest.update(f"{sha256(files[name])}  {name}\0".encode())
    return digest.hexdigest()


def _in_archive(archive: Path, scratch: Path, reading: Reading) -> list[Work]:
    folder = scratch / "unpacked"
    for name in unpack(archive, folder):
        reading.findings.add("zip_names_guessed", printable(name))
    # most archives contain one folder with their own name; macOS adds another
    top = [entry for entry in folder.iterdir() if not entry.name.startswith((".", "__MACOSX"))]
    root = top[0] if len(top) == 1 and top[0].is_dir() else folder
    return works_in_folder(root, archive.name, reading)


def _file_name(url: str) -> str:
    """The last part of an address as the name of a file; letters, digits and `( ) , . -` stay as they are."""
    name = PurePosixPath(unquote(urlsplit(url).path)).name
    return re.sub(r"[^\w(),.-]+", "_", name)[-80:].strip("._") or "text"
