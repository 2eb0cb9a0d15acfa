"""Where something was read, and what was found there."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from typing_extensions import override

Severity = Literal["error", "warning", "note"]
Step = str | int


@dataclass(frozen=True, slots=True)
class Place:
    """A document in a source, or an object in it.

    Args:
        source: the file's name; `standard input` for that.
        document: the number of the document in it, from 1; 0 means the source as a whole.
        line: where it begins, from 1; 0 if that is not known.
    """

    source: str
    document: int = 0
    line: int = 0

    def at(self, line: int) -> "Place":
        """Return the place of something in this document, if its line is known."""
        return Place(self.source, self.document, line or self.line)

    @override
    def __str__(self) -> str:
        """Return `file:line` if the line is known, else file and document."""
        if self.line:
            return f"{self.source}:{self.line}"
        return f"{self.source} (document {self.document})" if self.document else self.source


class InputFinding(NamedTuple):
    """A sentence about the input: what, where, and how to mend it."""

    severity: Severity
    """An error means that the input is wrong; warnings and notes do not."""
    sentence: str


class Findings(dict[InputFinding, None]):
    """What was found so far, in order; each sentence once."""

    def add(self, severity: Severity, sentence: str) -> None:
        """Add a finding."""
        self.setdefault(InputFinding(severity, sentence))

    def error(self, place: object, sentence: str) -> None:
        """Add an error of the input at `place`."""
        self.add("error", f"{place}: {sentence}")

    def warning(self, place: object, sentence: str) -> None:
        """Add a warning about the input at `place`."""
        self.add("warning", f"{place}: {sentence}")

    @property
    def wrong(self) -> bool:
        """Whether there is an error among them."""
        return any(finding.severity == "error" for finding in self)


def path_text(path: tuple[Step, ...]) -> str:
    """Return a field's path as Kubernetes writes it: `spec.reserved[0].cidr`."""
    joined = ""
    for step in path:
        if isinstance(step, int):
            joined += f"[{step}]"
        elif step.isidentifier() or ("-" in step and "." not in step):
            joined += f".{step}" if joined else step
        else:
            joined += f"[{step}]"
    return joined


def path_of(path: str) -> tuple[Step, ...]:
    """Parse a path as Kubernetes writes it; the reverse of `path_text`."""
    steps = re.findall(r"([^.\[\]]+)|\[(\d+)\]", path)
    return tuple(int(number) if number else name for name, number in steps)


def value_text(value: object) -> str:
    """Return a value for a message: as Kubernetes writes it, cut if it is long."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping | list):
        return "a list" if isinstance(value, list) else "a mapping"
    representation = repr(value)
    return representation if len(representation) <= 60 else f"{representation[:60]}..."
