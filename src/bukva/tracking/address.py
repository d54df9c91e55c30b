"""The address of the MLflow store, and what people may see of it and of its errors."""

import contextlib
import os
from collections.abc import Iterator
from urllib.parse import parse_qs, quote, unquote, urlsplit

from bukva.core.errors import BukvaError
from bukva.core.files import project_root
from bukva.core.redact import HIDDEN, redact_text, redact_url

DATABASES = ("sqlite", "postgresql", "mysql", "mssql")
LONGEST_MESSAGE = 300  # characters of an error; a proxy may answer with a whole page in one line


def tracking_uri() -> str:
    """The address of the store: MLFLOW_TRACKING_URI, else the project's own database.

    The path of a database is made absolute: a relative one means another database in every folder a stage runs in.
    """
    uri = os.environ.get("MLFLOW_TRACKING_URI") or "sqlite:///mlflow.db"
    kind, slashes, path = uri.partition("///")
    if kind == "sqlite:" and not path.startswith("/"):
        return f"{kind}{slashes}{project_root() / path}"
    return uri


def is_server() -> bool:
    """Whether MLflow is reached over http; the server then decides where artifacts are stored."""
    return _scheme() in ("http", "https")


def is_database() -> bool:
    """Whether the store is a database."""
    return _scheme().partition("+")[0] in DATABASES


def redact_secrets(text: object) -> str:
    """A text for people and logs: without users in addresses, and without passwords and tokens anywhere."""
    redacted = redact_text(text)
    for secret in _secrets():
        redacted = redacted.replace(secret, HIDDEN)
    return redacted


def explain(error: BaseException) -> str:
    """One line about an error: its innermost cause, because each part of MLflow wraps the error of another."""
    if isinstance(error, BukvaError):
        return redact_secrets(error)
    while cause := error.__cause__ or (None if error.__suppress_context__ else error.__context__):
        error = cause
    message = str(error).strip().partition("\n")[0]
    return redact_secrets(f"{type(error).__name__}: {message}")[:LONGEST_MESSAGE]


@contextlib.contextmanager
def errors_in_one_line() -> Iterator[None]:
    """Any error as a BukvaError of one line; a traceback shows addresses with their passwords."""
    try:
        yield
    except Exception as error:
        raise BukvaError(f"{redact_url(tracking_uri())}: {explain(error)}") from None


def _scheme() -> str:
    return urlsplit(tracking_uri()).scheme


def _secrets() -> set[str]:
    secrets = []
    with contextlib.suppress(ValueError):  # not a valid address
        address = urlsplit(tracking_uri())
        secrets += [address.password or "", *parse_qs(address.query).get("password", [])]
    secrets += [os.environ.get(name, "") for name in ("MLFLOW_TRACKING_PASSWORD", "MLFLOW_TRACKING_TOKEN")]
    return {form(secret) for secret in secrets if secret for form in (str, quote, unquote)}
