"""A request on a resource as the verbs get it, and the shapes of their answers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from envtest.server.request import RequestInfo
from envtest.server.resource import StoredResource


@dataclass(frozen=True, slots=True)
class User:
    """The user of a request."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, Sequence[str]] = field(default_factory=dict)


class AuthorizedCall(msgspec.Struct):
    """An authorized request on a resource."""

    info: RequestInfo
    resource: StoredResource
    user: User
    query: Mapping[str, str]
    dry_runs: Sequence[str]
    agent: str
    content_type: str
    data: bytes
    # DeleteOptions of the client, which admission webhooks get.
    options: Mapping[str, Any] = msgspec.field(default_factory=dict)
    # The name that the client gives a new object; empty if the server generates it.
    new_name: str = ""
    # Sentences for Warning headers.
    warnings: list[str] = msgspec.field(default_factory=list)

    @property
    def key(self) -> str:
        """The key of the object that the path names, in its table."""
        return self.resource.build_key(self.info.namespace, self.info.name)


class ObjectAnswer(msgspec.Struct, frozen=True):
    """An answer that is one object, as JSON bytes with apiVersion and kind."""

    code: int
    resource: StoredResource
    body: bytes


@dataclass(frozen=True, slots=True)
class ListAnswer:
    """An answer that is a list; items are JSON bytes without apiVersion and kind."""

    resource: StoredResource
    items: Sequence[bytes]
    revision: int
    # The continue token of the next page; empty on the last page.
    token: str = ""
    # The number of objects after this page; 0 if there are none, or if it is not known.
    remaining: int = 0


@dataclass(frozen=True, slots=True)
class JsonAnswer:
    """An answer that is any other JSON object, such as a Status."""

    code: int
    body: dict[str, Any]


Answer = ObjectAnswer | ListAnswer | JsonAnswer
