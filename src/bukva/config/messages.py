"""The sentences that report what is wrong in params.yaml: section, key and value, and what is valid or what to do."""

import difflib
import re
import reprlib
from typing import Any

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from bukva.core.errors import redact_text, redact_url

LIKE_AN_ADDRESS = re.compile(r"://|@|/\S*[?#]")  # also without a scheme
AUTO, LIST = "is auto", "is a list"  # tags of a key that takes either: pydantic shows them in the place of an error


def mistake(key: str, value: object, what: str) -> ValueError:
    """An error of ours, for a validator to raise: `what` says what is wrong with the value and what to do.

    The key is that of the section for whose validator it is raised; empty in the validator of a key.
    """
    return ValueError(f"{key and '.'}{key}: {shorten(value)} {what}.")


def one_or_another(names: list[str]) -> str:
    """Names as a list in a sentence: a, b or c."""
    return f"{', '.join(names[:-1])} or {names[-1]}" if len(names) > 1 else names[0]


def sentence(details: ErrorDetails, sections: type[BaseModel]) -> str:
    """One pydantic error as a sentence."""
    location, value = [str(step) for step in details["loc"] if step not in (AUTO, LIST)], details["input"]
    where, shown, context = ".".join(location), shorten(value), details.get("ctx", {})
    match details["type"]:
        case "value_error":  # a mistake
            return f"{where}{context['error']}".removeprefix(".")
        case "extra_forbidden":
            return f"{where}: unknown key with value {shown}; {_known_keys(location, sections)}"
        case "missing":
            return f"{where}: missing; put it back (git diff params.yaml shows what was removed)."
        case "literal_error":
            return f"{where}: {shown} is unknown; use {context['expected']}."
        case "model_type":
            what = "should be keys with values"
        case _:  # the subject of its message is Input, String or another word
            what = details["msg"][max(0, details["msg"].find("should ")) :]
    return f"{where}: {shown} ({type(value).__name__}) is invalid; it {what}."


class _Shortened(reprlib.Repr):
    """Values as errors show them: an address without its secrets, and a long value shortened."""

    def __init__(self) -> None:
        super().__init__()
        self.maxstring, self.maxother = 200, 60

    def repr_str(self, text: str, level: int) -> str:
        return super().repr_str(redact_url(text) if LIKE_AN_ADDRESS.search(text) else text, level)


shorten = _Shortened().repr


def yaml_fault(error: Exception) -> str:
    """What the YAML parser says, without the values and lines that it quotes: they may contain an address."""
    from ruamel.yaml.error import MarkedYAMLError

    if not isinstance(error, MarkedYAMLError):
        return " ".join(redact_text(error).split())
    text = f"{error.context or ''} {(error.problem or '').partition(' with value ')[0]}"
    mark = error.problem_mark or error.context_mark
    return f"{' '.join(redact_text(text).split())}, line {mark.line + 1}, column {mark.column + 1}"


def _known_keys(location: list[str], section: Any) -> str:
    for name in location[:-1]:
        section = section.model_fields[name].annotation
    known = list(section.model_fields)
    close = difflib.get_close_matches(location[-1], known, n=1)
    return f"did you mean {close[0]}?" if close else f"known keys are {', '.join(known)}."
