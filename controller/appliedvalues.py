"""Which stored values the server makes of applied ones, remembered in the process.

The server stores a quantity in its own notation (`1000m` as `1`), a mutating webhook may rewrite a
value, and in a value with one owner, an atomic list for example, managedFields do not tell a
default of the server from a field that an earlier apply set. Only an apply tells: it changes
nothing if the stored value is what the server makes of the applied one. Such a result is
remembered with the values, not with the resourceVersion, which each write of the status changes.
It holds until one of the values changes, or the process ends. Rejected: to parse quantities.
Nothing but the kind's type says which text is one. Rejected: to accept each stored value that
contains the applied one. A field that the body no longer has would stay for ever.
"""

from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import msgspec

MOST_OBJECTS = 65_536
"""How many objects are remembered; the oldest is forgotten first, which costs it one write."""


@dataclass(frozen=True, slots=True)
class ChildAndManager:
    """A child and the field manager that applies it.

    Args:
        kind: full name and version of the kind.
        where: namespace and name.
        uid: the uid; a recreated object is another one.
        manager: the field manager.
    """

    kind: str
    where: str
    uid: str
    manager: str


class AppliedValues:
    """The values of which an apply has shown what the server makes of them."""

    def __init__(self) -> None:
        self._digests: dict[tuple[str, str, str], tuple[str, frozenset[bytes]]] = {}

    def includes(self, child: ChildAndManager, digest: bytes) -> bool:
        """Return whether an apply of these values to this object changed nothing."""
        uid, digests = self._digests.get(self._name(child), ("", frozenset()))
        return uid == child.uid and digest in digests

    def remember(self, child: ChildAndManager, digests: frozenset[bytes]) -> None:
        """Record the values of the last apply that changed nothing, instead of older ones."""
        name = self._name(child)
        self._digests.pop(name, None)
        if not digests:
            return
        self._digests[name] = (child.uid, digests)
        if len(self._digests) > MOST_OBJECTS:
            del self._digests[next(iter(self._digests))]

    @staticmethod
    def _name(child: ChildAndManager) -> tuple[str, str, str]:
        return child.kind, child.where, child.manager


def digest_values(path: str, desired: Any, stored: Any) -> bytes:
    """Return a digest of a field's path, its applied value and its stored value."""
    encoded = msgspec.json.encode([path, desired, stored], order="deterministic")
    return blake2b(encoded, digest_size=16).digest()
