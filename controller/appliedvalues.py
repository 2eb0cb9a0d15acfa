"""Which stored values the server makes of applied ones, remembered in the process.

The server does not store each value as it was applied. It writes a quantity in its own notation
(`1000m` as `1`), drops null and empty values, and adds defaults; a mutating webhook rewrites what
it wants. In a value with one owner, an atomic list for example, managedFields do not tell a
default of the server from a field that an earlier apply set. The answer to an apply tells: nobody
else writes between an apply and its answer.

A difference is a field whose stored value is not the applied one. A difference in the answer is
what the server makes of the applied value. It is remembered with both values, not with the
resourceVersion, which each write of the status changes. It holds until one of the values changes,
or the process ends: so after a restart a child with such values is applied once more.

Rejected: to compare resourceVersions before and after an apply. kube-apiserver raises that of a
NetworkPolicy with an empty `egress` at each apply, though it stores the same object.
Rejected: to parse quantities. Nothing but the kind's type says which text is one.
Rejected: to accept each stored value that contains the applied one. A field that the body no
longer has would stay for ever.
"""

from collections.abc import Sequence
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
    """The differences that stay after an apply, by child and field manager."""

    def __init__(self) -> None:
        # By `_build_entry_key`: the uid of the child, and the digests of its differences.
        self._digests: dict[tuple[str, str, str], tuple[str, frozenset[bytes]]] = {}

    def includes(self, child: ChildAndManager, digest: bytes) -> bool:
        """Return whether a difference stayed after the last apply to this child.

        Return False for a recreated child: it has another uid than the child of the entry.

        Args:
            child: the child and its field manager.
            digest: the digest of the difference, by `digest_values`.
        """
        uid, digests = self._digests.get(self._build_entry_key(child), ("", frozenset()))
        return uid == child.uid and digest in digests

    def remember(self, child: ChildAndManager, digests: frozenset[bytes]) -> None:
        """Record the differences that stayed after an apply; forget those of earlier applies."""
        key = self._build_entry_key(child)
        self._digests.pop(key, None)  # so that the child is the newest entry, forgotten last
        if not digests:
            return  # most children: the server stored what was applied
        self._digests[key] = (child.uid, digests)
        if len(self._digests) > MOST_OBJECTS:
            del self._digests[next(iter(self._digests))]

    @staticmethod
    def _build_entry_key(child: ChildAndManager) -> tuple[str, str, str]:
        """Return the key of an entry, without the uid: a recreated child replaces the entry."""
        return child.kind, child.where, child.manager


def digest_values(path: str, desired: Any, stored: Sequence[Any]) -> bytes:
    """Return a digest of a field's path, its applied value and its stored value.

    Args:
        path: the path of the field.
        desired: the applied value.
        stored: the stored value as only entry; empty if the object does not have the field.
    """
    encoded = msgspec.json.encode([path, desired, stored], order="deterministic")
    return blake2b(encoded, digest_size=16).digest()
