"""The code and the packages that a model carries."""

import zipfile
from importlib.metadata import packages_distributions
from pathlib import Path

from imports import imported, modules, reached

from bukva.tracking.models.package import CODE, DISTRIBUTIONS, write_code

ENTRY = "bukva.serving.pyfunc"
BY_NAME = ["bukva.models.gpt", "bukva.models.bigram", *(f"bukva.tokenizers.{kind}" for kind in ("char", "byte", "bpe"))]


def needed() -> set[str]:
    return {ENTRY, *reached(ENTRY, also=BY_NAME)}


def test_the_archive_has_every_module_that_the_model_imports(tmp_path: Path) -> None:
    write_code(tmp_path / "code.zip")
    with zipfile.ZipFile(tmp_path / "code.zip") as packed:
        names = set(packed.namelist())
    root = Path(modules()["bukva"]).parent.parent
    assert {modules()[name].relative_to(root).as_posix() for name in needed()} <= names
    assert "bukva/encoding/prompts.yaml" in names
    assert not [name for name in names if "__pycache__" in name]


def test_each_entry_is_needed() -> None:
    files = {modules()[name].relative_to(Path(modules()["bukva"]).parent).as_posix() for name in needed()}
    for entry in CODE:
        if not entry.endswith("__init__.py"):
            assert [file for file in files if file == entry or file.startswith(f"{entry}/")], entry


def test_the_bytes_of_the_archive_are_a_function_of_the_code(tmp_path: Path) -> None:
    write_code(tmp_path / "a.zip")
    write_code(tmp_path / "b.zip")
    assert (tmp_path / "a.zip").read_bytes() == (tmp_path / "b.zip").read_bytes()


def test_every_package_that_the_model_imports_is_required() -> None:
    named = packages_distributions()
    libraries = {library for name in needed() for library in imported(name) if library in named}
    libraries -= {"bukva"}
    required = {name.lower() for name in DISTRIBUTIONS}
    libraries -= {"pydantic_core"}  # pydantic has it at one version
    assert not [library for library in libraries if required.isdisjoint(map(str.lower, named[library]))]
