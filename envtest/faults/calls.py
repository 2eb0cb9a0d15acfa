"""Requests of a client as the API server reads them, rules that match them, and their records.

The verbs and the parts of the path are those of apiserver's RequestInfo
(k8s.io/apiserver/pkg/endpoints/request/requestinfo.go), which RBAC rules are matched by too.
"""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar, overload
from urllib.parse import unquote

import anyio
from typing_extensions import override

_BY_METHOD = {"POST": "create", "PUT": "update", "PATCH": "patch"}
# Subresources of a namespace; any other name there is a resource in the namespace.
_OF_NAMESPACES = frozenset({"status", "finalize"})


@dataclass(frozen=True, slots=True)
class Call:
    """One request.

    Args:
        method: the HTTP method, for example `GET`.
        path: the path from the server's root, percent-encoded.
        query: the parameters, decoded; of a repeated one, the first value.
        verb: `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`;
            for paths that are no resources, the method in small letters.
        group: empty for the core group.
        version: the version of the API group.
        resource: the plural; empty for paths that are no resources.
        subresource: for example `status`.
        namespace: empty for cluster-wide requests.
        name: empty for collections.
    """

    method: str
    path: str
    query: Mapping[str, str]
    body: bytes = field(default=b"", repr=False)
    verb: str = ""
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""


def read_call(method: str, path: str, query: Mapping[str, str], body: bytes = b"") -> Call:
    """Return the call that a request makes."""
    parts = [unquote(part) for part in path.split("/") if part]
    if parts[:1] == ["api"] and len(parts) > 2:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[:1] == ["apis"] and len(parts) > 3:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return Call(method, path, query=query, body=body, verb=method.lower())
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2 and rest[2] not in _OF_NAMESPACES:
        namespace, rest = rest[1], rest[2:]
    # A path may end after the resource or the name; the rest is empty then.
    resource, name, subresource = [*rest, "", ""][:3]
    return Call(
        method,
        path,
        query=query,
        body=body,
        verb=_read_verb(method, query, has_name=bool(name)),
        group=group,
        version=version,
        resource=resource,
        subresource=subresource,
        namespace=namespace,
        name=name,
    )


def _read_verb(method: str, query: Mapping[str, str], *, has_name: bool) -> str:
    """Return the verb of a request on a resource."""
    if method == "DELETE":
        return "delete" if has_name else "deletecollection"
    if method in _BY_METHOD:
        return _BY_METHOD[method]
    if query.get("watch") in {"1", "true"}:
        return "watch"
    return "get" if has_name else "list"


@dataclass(frozen=True, slots=True)
class Match:
    """A rule for the requests that get a fault. A field that is None matches every request.

    Args:
        verb: the verb, see `Call`.
        resource: the plural.
        group: the API group; `""` is the core group.
        subresource: the subresource; `""` is the object itself.
        namespace: the namespace; a list of all namespaces has `""`.
        name: the name of the object.
        where: a further condition.
        nth: the number of the first matching request that gets the fault, counted from 1.
        times: how many requests get the fault from there on; None for all.
        chance: the probability with which each of them gets it, decided by the proxy's seed.
    """

    verb: str | None = None
    resource: str | None = None
    group: str | None = None
    subresource: str | None = None
    namespace: str | None = None
    name: str | None = None
    where: Callable[[Call], bool] | None = None
    nth: int = 1
    times: int | None = None
    chance: float = 1.0

    def matches(self, call: Call) -> bool:
        """Return whether a request matches, whatever its number."""
        pairs = (
            (self.verb, call.verb),
            (self.resource, call.resource),
            (self.group, call.group),
            (self.subresource, call.subresource),
            (self.namespace, call.namespace),
            (self.name, call.name),
        )
        if any(want is not None and want != have for want, have in pairs):
            return False
        return self.where is None or self.where(call)


class MatchCounter:
    """Counts the requests that match a rule, and selects those that get the fault.

    Args:
        match: the rule.
        randomness: decides with the probability `Match.chance`.
    """

    def __init__(self, match: Match, randomness: random.Random) -> None:
        self._match = match
        self._random = randomness
        self._match_count = 0
        self._fault_count = 0

    def count_and_decide(self, call: Call) -> bool:
        """Count a request; return whether it gets the fault."""
        match = self._match
        if not match.matches(call):
            return False
        self._match_count += 1
        # Without a limit, `times` is None, which equals no count.
        if self._match_count < match.nth or self._fault_count == match.times:
            return False
        if match.chance < 1.0 and self._random.random() >= match.chance:
            return False
        self._fault_count += 1
        return True


T = TypeVar("T")


class Record(Sequence[T]):
    """A growing list; tasks can wait for its next entries."""

    def __init__(self) -> None:
        self._entries: list[T] = []
        # Set by the next entry, which also replaces it by a new event.
        self._next_entry = anyio.Event()

    def add(self, entry: T) -> None:
        """Append an entry."""
        self._entries.append(entry)
        self._next_entry.set()
        self._next_entry = anyio.Event()

    async def wait(self, count: int = 1, where: Callable[[T], bool] | None = None) -> list[T]:
        """Wait until `count` entries satisfy `where`; return all entries that satisfy it."""
        while True:
            entries = [entry for entry in self._entries if where is None or where(entry)]
            if len(entries) >= count:
                return entries
            await self._next_entry.wait()

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[T]: ...
    @override
    def __getitem__(self, index: int | slice) -> T | Sequence[T]:
        return self._entries[index]

    @override
    def __iter__(self) -> Iterator[T]:
        return iter(tuple(self._entries))

    @override
    def __len__(self) -> int:
        return len(self._entries)
