"""The words in which default roles are written down here, and the rules that they stand for.

A line of a table is one rule: API groups (`_` is the core), resources, verbs and perhaps names,
each separated by blanks and in the order in which Kubernetes sorts them. A line of two parts is
for paths that are no resources.
"""

from collections.abc import Iterable
from typing import Any, Final

Line = tuple[str, ...]

READ: Final = "get list watch"
LOOK: Final = "list watch"
CHANGE: Final = "patch update"
WRITE: Final = "create delete deletecollection patch update"
ALL: Final = "create delete deletecollection get list patch update watch"

EVENTS: Final[Line] = ("_ events.k8s.io", "events", "create patch update")
REVIEWS: Final[tuple[Line, ...]] = (
    ("authentication.k8s.io", "tokenreviews", "create"),
    ("authorization.k8s.io", "subjectaccessreviews", "create"),
)


def rules(lines: Iterable[Line]) -> list[dict[str, Any]]:
    """Return the PolicyRules that lines stand for."""
    return [_rule(*line) for line in lines]


def _rule(*parts: str) -> dict[str, Any]:
    first, *others = ([*part.split(" ")] for part in parts)
    if len(parts) == 2:
        return {"verbs": others[0], "nonResourceURLs": first}
    groups = ["" if group == "_" else group for group in first]
    rule = {"verbs": others[1], "apiGroups": groups, "resources": others[0]}
    if len(others) > 2:
        rule["resourceNames"] = others[2]
    return rule
