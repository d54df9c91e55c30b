"""What a download leaves out and what it guesses: counted for the metrics, and told in a line each on the terminal."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from bukva.core.errors import BukvaError
from bukva.corpus.sources.formats.base import BadRowError, NoTextError, UnreadableError, printable

NAMED = 3  # names in a line; the others are counted


@dataclass
class Names:
    """How many there are, and the names of the first."""

    count: int = 0
    first: list[str] = field(default_factory=list)

    def add(self, name: str) -> None:
        self.count += 1
        if len(self.first) < NAMED:
            self.first.append(name)

    def __str__(self) -> str:
        more = self.count - len(self.first)
        return ", ".join(self.first) + (f" and {more} more" if more else "")


@dataclass
class Findings:
    """What was found in a corpus beside its texts.

    `strict` raises the first file or row without readable text instead of counting it.
    """

    strict: bool
    without_text: Names = field(default_factory=Names)
    unreadable: Names = field(default_factory=Names)
    bad_rows: Names = field(default_factory=Names)
    encodings: dict[str, Names] = field(default_factory=dict)
    marks: Names = field(default_factory=Names)
    other_types: Counter[str] = field(default_factory=Counter)

    def leave_out(self, error: BukvaError) -> None:
        """Count a file or row that has no readable text.

        Raises:
            BukvaError: the error itself, if `strict`.
        """
        if self.strict:
            raise error
        match error:
            case NoTextError():
                self.without_text.add(error.place)
            case BadRowError():
                self.bad_rows.add(f"{error.place} ({error.why})")
            case UnreadableError():
                self.unreadable.add(f"{error.place} ({error.why})")
            case _:  # a bound of archives
                self.unreadable.add(str(error))

    def add_encoding(self, place: str, encoding: str) -> None:
        """Count a file whose encoding was detected."""
        self.encodings.setdefault(encoding, Names()).add(place)

    def add_marks(self, place: str) -> None:
        """Count a text that had byte order marks inside."""
        self.marks.add(place)

    def sentences(self) -> Iterator[str]:
        """What a user should know, a sentence for each kind; none for a corpus where all is well."""
        if self.without_text.count:
            yield f"{_files(self.without_text.count)} left out, without text: {self.without_text}."
        if self.unreadable.count:
            yield f"{_files(self.unreadable.count)} left out, cannot be read: {self.unreadable}."
        if self.bad_rows.count:
            rows = "row of a table" if self.bad_rows.count == 1 else "rows of tables"
            yield f"{self.bad_rows.count} {rows} left out: {self.bad_rows}."
        for encoding, names in sorted(self.encodings.items()):
            yield f"{_files(names.count)} read as {encoding}, which was detected: {names}."
        if self.marks.count:
            texts = "1 text" if self.marks.count == 1 else f"{self.marks.count} texts"
            yield f"{texts} had byte order marks (U+FEFF) inside, which are removed: {self.marks}."
        if self.other_types:
            common = ", ".join(f"{count} {printable(name) or 'without extension'}" for name, count in self._common())
            more = len(self.other_types) - NAMED
            types = f"{common}{f' and {more} more types' if more > 0 else ''}"
            advice = "download.extensions names types to be read as plain text"
            yield f"{_files(self.other_types.total())} of other types not read: {types}; {advice}."

    def _common(self) -> list[tuple[str, int]]:
        return sorted(self.other_types.items(), key=lambda item: (-item[1], item[0]))[:NAMED]


def _files(count: int) -> str:
    return f"{count} file{'s' if count > 1 else ''}"
