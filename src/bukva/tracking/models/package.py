"""What runs a trained model without the repository: the code that trained it, and the packages at their versions."""

import zipfile
from importlib.metadata import version
from pathlib import Path

PACKAGE = Path(__file__).parents[2]  # bukva, beside the code that runs, also in the snapshot of an experiment

# files and folders of bukva that serving/pyfunc.py imports; a test walks its imports
CODE = (
    "__init__.py",
    "base",
    "config",
    "encoding",
    "generation",
    "models",
    "ngrams",
    "scoring",
    "serving/__init__.py",
    "serving/answers.py",
    "serving/pyfunc.py",
    "serving/writer.py",
    "tokenizers",
    "training/__init__.py",
    "training/device.py",
)
# packages that these import; MLflow adds what it needs itself
DISTRIBUTIONS = (
    "jinja2",
    "mlflow",
    "numba",
    "numpy",
    "pandas",
    "pydantic",
    "pyyaml",
    "ruamel.yaml",
    "safetensors",
    "tokenizers",
    "torch",
)
EPOCH = (1980, 1, 1, 0, 0, 0)  # of the files in the archive: its bytes are a function of the code


def requirements() -> list[str]:
    """The packages at the versions of this environment, without what only this machine can install (2.13.0+cpu)."""
    return [f"{name}=={version(name).partition('+')[0]}" for name in DISTRIBUTIONS]


def write_code(archive: Path) -> None:
    """Pack CODE into a zip file, below a folder bukva."""
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        for file in (file for name in CODE for file in _files(PACKAGE / name)):
            member = zipfile.ZipInfo(file.relative_to(PACKAGE.parent).as_posix(), EPOCH)
            packed.writestr(member, file.read_bytes(), zipfile.ZIP_DEFLATED)


def _files(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    return [file for file in sorted(path.rglob("*")) if file.is_file() and "__pycache__" not in file.parts]
