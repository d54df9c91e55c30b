"""Section download of params.yaml for tests: your own texts from no place yet, and what a test changes."""

from bukva.config.data import Download

LOCAL = {
    "corpus": "local",
    "path": "-",
    "url": "",
    "sha256": "",
    "dataset": "",
    "revision": "",
    "files": "*",
    "encoding": "auto",
    "text_column": "text",
    "strict": False,
    "extensions": [],
}


def download_params(**changes: object) -> Download:
    """The section with some keys changed; paths become text."""
    return Download.model_validate({**LOCAL, **changes, "path": str(changes.get("path", "-"))})
