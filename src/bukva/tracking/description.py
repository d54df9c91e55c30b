"""Puts sections into the description of an MLflow run, which people edit too.

Each section stands between two comments, which MLflow does not show. Of each, the store has the digest of what it got
last. A section that a person changed since then differs from its digest: it is theirs and stays, and a new version is
added below. A section that a person removed is added again only when it changes.
"""

import hashlib
import re
from collections.abc import Iterator, Mapping

MOST_CHARS = 8000  # of a tag in MLflow, which cuts off the rest without an error
SECTION_CHARS = 4000
CUT = "(The rest is too long for MLflow.)"
SECTION = re.compile(r"<!-- bukva ([0-9a-f]{8}) -->((?:(?!<!-- bukva ).)*?)<!-- /bukva -->", re.DOTALL)


def with_sections(text: str, sections: Mapping[str, str], received: Mapping[str, str]) -> tuple[str, Mapping[str, str]]:
    """A description with these sections.

    If they take more than MOST_CHARS together, the oldest unchanged ones are left out, and those that are new last.

    Args:
        text: the description in the store.
        sections: Markdown by title.
        received: what the store got last: digests of sections, by their marks, which are the digests of their titles.

    Returns:
        The new description, and what the store has then.
    """
    bodies = {_digest(title): f"### {title}\n\n{_cut(markdown.strip())}" for title, markdown in sections.items()}
    new = {mark: body for mark, body in bodies.items() if received.get(mark) != _digest(body)}
    for mark, body in new.items():
        text = _with_section(text, mark, body, received)
    received = {**received, **{mark: _digest(body) for mark, body in new.items()}}
    text = _shortened(text, received, new)
    return text, {mark: digest for mark, digest in received.items() if mark in bodies or mark in text}


def _with_section(text: str, mark: str, body: str, received: Mapping[str, str]) -> str:
    section = f"<!-- bukva {mark} -->\n\n{body}\n\n<!-- /bukva -->"
    if section in text:  # sent by a process that was stopped before it remembered that
        return text
    former = next((found for found in _unchanged(text, received) if found[1] == mark), None)
    if former:
        return text[: former.start()] + section + text[former.end() :]
    return f"{text.rstrip()}\n\n{section}".lstrip()


def _shortened(text: str, received: Mapping[str, str], new: Mapping[str, str]) -> str:
    while len(text) > MOST_CHARS and (unchanged := list(_unchanged(text, received))):
        section = min(unchanged, key=lambda found: (found[1] in new, found.start()))
        text = f"{text[: section.start()].rstrip()}\n\n{text[section.end() :].lstrip()}".strip()
    return text


def _unchanged(text: str, received: Mapping[str, str]) -> Iterator[re.Match[str]]:
    """The sections that no person has changed."""
    return (found for found in SECTION.finditer(text) if received.get(found[1]) == _digest(found[2].strip()))


def _cut(markdown: str) -> str:
    """At most SECTION_CHARS of it, cut at the end of a line."""
    if len(markdown) <= SECTION_CHARS:
        return markdown
    return f"{markdown[:SECTION_CHARS].rpartition(chr(10))[0]}\n\n{CUT}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]
