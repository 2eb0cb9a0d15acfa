"""How many writes the API server served, by its own count: apiserver_request_total."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from typing_extensions import override

METRIC = "apiserver_request_total"
_MUTATING = {"POST", "PUT", "PATCH", "APPLY", "DELETE", "DELETECOLLECTION"}
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True, order=True, slots=True)
class Write:
    """A kind of request that changes something.

    Attributes:
        resource: plural, with the subresource as the URL has it: `ipallocations/status`.
        verb: POST, PUT, PATCH, APPLY, DELETE or DELETECOLLECTION.
        refused: whether the server answered it with an error, so that it changed nothing.
    """

    resource: str
    verb: str
    refused: bool = False

    @override
    def __str__(self) -> str:
        """Return it as a table shows it."""
        return f"{self.verb} {self.resource}{' refused' if self.refused else ''}"


def count_writes(content: str, *groups: str) -> Counter[Write]:
    """Return how often each kind of write was served so far.

    Args:
        content: the text of the API server's /metrics.
        *groups: the API groups whose writes count.
    """
    write: Counter[Write] = Counter()
    for labels, value in _parse_samples(content):
        if labels["group"] in groups and labels["verb"] in _MUTATING and not labels["dry_run"]:
            resource = labels["resource"]
            if labels["subresource"]:
                resource += f"/{labels['subresource']}"
            refused = not labels["code"].startswith("2")
            write[Write(resource, labels["verb"], refused)] += round(float(value))
    return write


def _parse_samples(content: str) -> Iterator[tuple[dict[str, str], str]]:
    for line in content.splitlines():
        if line.startswith(METRIC + "{"):
            labels, _, value = line.removeprefix(METRIC).rpartition(" ")
            yield dict(_LABEL.findall(labels)), value


def count_accepted(writes: Counter[Write]) -> int:
    """Return how many of the writes were not refused."""
    return sum(number for write, number in writes.items() if not write.refused)
