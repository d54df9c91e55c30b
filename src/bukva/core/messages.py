"""Messages about mistakes in params.yaml: section, key, value and valid values."""

import difflib
import re
import reprlib
from typing import Any

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from bukva.core.errors import redact_url

LIKE_AN_ADDRESS = re.compile(r"://|@|/\S*[?#]")  # matches URLs, also without a scheme
AUTO, LIST = "is auto", "is a list"  # tags of unions; pydantic adds them to the location of an error


def mistake(key: str, value: object, what: str) -> ValueError:
    """Return an error for a validator. `key`: "" for a validator of one key; `what`: the end of the message."""
    return ValueError(f"{key and '.'}{key}: {shorten(value)} {what}.")


def require(is_valid: object, key: str, value: object, what: str) -> None:
    """Raise `mistake` if a value is invalid."""
    if not is_valid:
        raise mistake(key, value, what)


def one_or_another(names: list[str]) -> str:
    return f"{', '.join(names[:-1])} or {names[-1]}" if len(names) > 1 else names[0]


def error_message(details: ErrorDetails, sections: type[BaseModel]) -> str:
    """Return the message for one validation error of pydantic in data of the class `sections`."""
    location, value = [str(step) for step in details["loc"] if step not in (AUTO, LIST)], details["input"]
    where, shown, context = ".".join(location), shorten(value), details.get("ctx", {})
    match details["type"]:
        case "value_error":  # raised as `mistake`
            return f"{where}{context['error']}".removeprefix(".")
        case "extra_forbidden":
            return f"{where}: this key is unknown (its value is {shown}). {_known_keys(location, sections)}"
        case "missing":
            return f"{where}: this key is missing. Add it, or look for a removed line with `git diff params.yaml`"
        case "literal_error":
            return f"{where}: {shown} is not a valid value. Use {context['expected']}."
        case "model_type":
            what = "should have keys with values"
        case _:  # pydantic's message has another subject before "should", such as "Input" or "String"
            what = details["msg"][max(0, details["msg"].find("should ")) :]
    return f"{where}: {shown} ({type(value).__name__}) is invalid. The value {what}."


class _Shortened(reprlib.Repr):
    """Format values for error messages. Shorten long values, and remove secrets from URLs."""

    def __init__(self) -> None:
        super().__init__()
        self.maxstring, self.maxother = 200, 60

    def repr_str(self, text: str, level: int) -> str:
        return super().repr_str(redact_url(text) if LIKE_AN_ADDRESS.search(text) else text, level)


shorten = _Shortened().repr


def yaml_fault(error: Exception) -> str:
    """Return the parser's message with line and column, without the lines that it quotes, which may hold secrets."""
    from yaml import MarkedYAMLError

    if not isinstance(error, MarkedYAMLError):
        return " ".join(str(error).split())
    text = f"{error.context or ''} {error.problem or ''}"
    mark = error.problem_mark or error.context_mark
    place = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
    return f"{' '.join(text.split())}{place}"


def _known_keys(location: list[str], section: Any) -> str:
    for name in location[:-1]:
        section = section.model_fields[name].annotation
    known = list(section.model_fields)
    close = difflib.get_close_matches(location[-1], known, n=1)
    return f"Did you mean `{close[0]}`?" if close else f"Known keys: {', '.join(known)}."
