"""The sentences that report what is wrong in params.yaml.

A sentence names the file, section, key and value, and then the values that are valid or what to do. No stage depends
on this module: editing a sentence reruns nothing.
"""

import difflib
import re
import reprlib
from typing import Any

from pydantic import BaseModel
from pydantic_core import ErrorDetails, PydanticCustomError

from bukva.config.choices import TAGS
from bukva.core.redact import redact_text, redact_url

LIKE_AN_ADDRESS = re.compile(r"://|@|/\S*[?#]")  # also without a scheme
# HEAD, because DVC stages dvc.lock with core.autostage; and only these files, because code may be edited
RETURN = "git checkout HEAD params.yaml dvc.lock reports && dvc checkout"
WAY_BACK = f"To go back: {RETURN}"


def mistake(key: str, value: object, what: str) -> PydanticCustomError:
    """An error of ours, for a validator to raise: `what` says what is wrong with the value and what to do."""
    # braces in a template are fields, so everything is passed as context
    return PydanticCustomError("mistake", "{key}: {value} {what}", {"key": key, "value": shorten(value), "what": what})


def one_or_another(names: list[str]) -> str:
    """Names as a list in a sentence: a, b or c."""
    return f"{', '.join(names[:-1])} or {names[-1]}" if len(names) > 1 else names[0]


def sentence(details: ErrorDetails, sections: type[BaseModel]) -> str:
    """One pydantic error as a sentence."""
    location, value = [str(step) for step in details["loc"] if step not in TAGS], details["input"]
    where = ".".join(location)
    context = details.get("ctx", {})
    what = details["msg"][max(0, details["msg"].find("should ")) :]  # its subject is Input, String or another word
    match details["type"]:
        case "mistake":
            return f"{'.'.join([*location, str(context['key'])])}: {context['value']} {context['what']}."
        case "extra_forbidden":
            return f"{where}: unknown key with value {shorten(value)}; {_known_keys(location, sections)}"
        case "missing":
            return f"{where}: missing; put it back (git diff params.yaml shows what was removed)."
        case "literal_error":
            return f"{where}: {shorten(value)} is unknown; use {context['expected']}."
        case "unknown_name":
            known = one_or_another([repr(name) for name in context["names"]])
            return f"{where}: {shorten(value)} is unknown; use {known}."
        case "repeated":
            return f"{where}: {shorten(value)} names an item twice; use each of them once."
        case "too_short" | "string_too_short":
            return f"{where}: {shorten(value)} is empty; use one item or character, or more."
        case "greater_than_equal" | "greater_than" | "less_than_equal" | "less_than":
            return f"{where}: {shorten(value)} is out of range; it {what}."
        case "model_type":
            return f"{where}: {shorten(value)} ({type(value).__name__}) is invalid; it should be keys with values."
        case "string_pattern_mismatch":
            return f"{where}: {shorten(value)} is not a SHA-256 digest; use 64 digits 0-9a-f (sha256sum FILE), or ''."
        case _:
            return f"{where}: {shorten(value)} ({type(value).__name__}) is invalid; it {what}."


def yaml_fault(error: Exception) -> str:
    """What the YAML parser says, without the values and lines that it quotes: they may contain an address."""
    from ruamel.yaml.error import MarkedYAMLError

    if not isinstance(error, MarkedYAMLError):
        return " ".join(redact_text(error).split())
    text = f"{error.context or ''} {(error.problem or '').partition(' with value ')[0]}"
    mark = error.problem_mark or error.context_mark
    return f"{' '.join(redact_text(text).split())}, line {mark.line + 1}, column {mark.column + 1}"


class _Shortened(reprlib.Repr):
    """Values as errors show them: an address without its secrets, and a long value shortened."""

    def __init__(self) -> None:
        super().__init__()
        self.maxstring, self.maxother = 200, 60

    def repr_str(self, text: str, level: int) -> str:
        return super().repr_str(redact_url(text) if LIKE_AN_ADDRESS.search(text) else text, level)


def shorten(value: Any) -> str:
    """A value as an error shows it."""
    return _Shortened().repr(value)


def _known_keys(location: list[str], sections: type[BaseModel]) -> str:
    section = sections
    for name in location[:-1]:
        section = section.model_fields[name].annotation  # type: ignore[assignment]
    known = list(section.model_fields)
    close = difflib.get_close_matches(location[-1], known, n=1)
    return f"did you mean {close[0]}?" if close else f"known keys are {', '.join(known)}."
