"""Findings about the input of a command, each with its place: a file, and a line or a document."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from typing_extensions import override

Severity = Literal["error", "warning", "note"]
Step = str | int
"""A step of a path to a field: the name of a field, or the index of an item."""
_LONGEST_VALUE = 60
"""The most characters of a value that a message quotes."""


@dataclass(frozen=True, slots=True)
class Place:
    """A document in a source, or an object in it.

    Args:
        source: the name of the file, or `standard input`.
        document: the number of the document in the source, from 1; 0 means the whole source.
        line: the first line, from 1; 0 if it is not known.
    """

    source: str
    document: int = 0
    line: int = 0

    def at(self, line: int) -> "Place":
        """Return the place of a line in this document; this place if the line is 0 (not known)."""
        return Place(self.source, self.document, line or self.line)

    @override
    def __str__(self) -> str:
        """Return `file:line` if the line is known, else file and document."""
        if self.line:
            return f"{self.source}:{self.line}"
        return f"{self.source} (document {self.document})" if self.document else self.source


class InputFinding(NamedTuple):
    """A sentence about the input: the fault, its place, and what to do."""

    severity: Severity
    """An error means that the input is wrong; warnings and notes do not."""
    sentence: str


class Findings(dict[InputFinding, None]):
    """The findings so far, in order, each once."""

    def add(self, severity: Severity, sentence: str) -> None:
        """Add a finding."""
        self.setdefault(InputFinding(severity, sentence))

    def add_error(self, place: object, sentence: str) -> None:
        """Add an error of the input at `place`."""
        self.add("error", f"{place}: {sentence}")

    def add_warning(self, place: object, sentence: str) -> None:
        """Add a warning about the input at `place`."""
        self.add("warning", f"{place}: {sentence}")

    @property
    def has_errors(self) -> bool:
        """Whether there is an error among them."""
        return any(finding.severity == "error" for finding in self)


def format_path(path: tuple[Step, ...]) -> str:
    """Return a field's path in the form of Kubernetes: `spec.reserved[0].cidr`.

    A step is written plainly if it is an identifier, or has a dash and no dot. Any other step is
    written in brackets: an index, or a label's key with a domain.
    """
    joined = ""
    for step in path:
        if isinstance(step, str) and (step.isidentifier() or ("-" in step and "." not in step)):
            joined += f".{step}" if joined else step
        else:
            joined += f"[{step}]"
    return joined


def parse_path(path: str) -> tuple[Step, ...]:
    """Return the steps of a path in the form of Kubernetes: `spec.reserved[0].cidr`."""
    steps = re.findall(r"([^.\[\]]+)|\[(\d+)\]", path)
    return tuple(int(number) if number else name for name, number in steps)


def format_value(value: object) -> str:
    """Return a value as text for a message, cut if it is long; null, true and false as in JSON."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping | list):
        return "a list" if isinstance(value, list) else "a mapping"
    representation = repr(value)
    if len(representation) <= _LONGEST_VALUE:
        return representation
    return f"{representation[:_LONGEST_VALUE]}..."
