"""One resource as it is served: a kind in a version, its names, and the rules behind it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from envtest.patching import Versions
from envtest.server import failures
from envtest.server.failures import StatusError
from envtest.server.rules import Rules
from envtest.storage import Stored

MAIN_VERBS = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")

_decode = msgspec.json.Decoder().decode


@dataclass(frozen=True, slots=True, eq=False)
class Resource:
    """A resource in one version; two versions of a kind share their place in the store."""

    group: str
    version: str
    plural: str
    kind: str
    list_kind: str
    singular: str
    namespaced: bool
    rules: Rules
    verbs: tuple[str, ...] = MAIN_VERBS
    # Subresource -> (kind, verbs), as discovery lists them.
    subresources: dict[str, dict[str, Any]] = field(default_factory=dict)
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    # What clients are told that use a version which is on its way out.
    deprecation: str = ""
    # Where the objects are: another resource's place if they are stored as that (events).
    place: str = ""
    # How a stored body reads in this version, where that is not as stored.
    to_version: Callable[[dict[str, Any]], dict[str, Any]] | None = None
    to_storage: Callable[[dict[str, Any]], dict[str, Any]] | None = None
    # The other versions, for the ownership of fields.
    versions: Versions | None = None
    # `group/version`, and how every object begins on the wire: asked for all the time.
    api_version: str = field(init=False, repr=False)
    head: bytes = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Put together what follows from the names."""
        version = f"{self.group}/{self.version}" if self.group else self.version
        names = [f'"kind":"{self.kind}"', f'"apiVersion":"{version}"']
        if self.rules.custom:
            names.reverse()
        object.__setattr__(self, "api_version", version)
        object.__setattr__(self, "head", f"{{{','.join(names)},".encode())

    def key(self, namespace: str, name: str) -> str:
        """Return the key of an object in its table."""
        return f"{namespace}/{name}" if self.namespaced else name

    def bare(self, stored: Stored) -> bytes:
        """Return an object's JSON in this version, without apiVersion and kind."""
        if self.to_version is None:
            return stored.body
        return msgspec.json.encode(self.to_version(_decode(stored.body)), order="sorted")

    def dressed(self, stored: Stored) -> bytes:
        """Return an object's JSON in this version."""
        return self.head + self.bare(stored)[1:]

    def load(self, stored: Stored) -> dict[str, Any]:
        """Return an object in this version, with apiVersion and kind, free to be changed."""
        body = _decode(stored.body)
        if self.to_version is not None:
            body = self.to_version(body)
        return {"apiVersion": self.api_version, "kind": self.kind, **body}

    def stored_form(self, body: dict[str, Any]) -> dict[str, Any]:
        """Return what the store keeps of an object of this version."""
        bare = {name: value for name, value in body.items() if name not in {"apiVersion", "kind"}}
        bare["metadata"] = dict(bare["metadata"])
        return self.to_storage(bare) if self.to_storage else bare

    def not_found(self, name: str) -> StatusError:
        """Return the refusal for a name that nothing has."""
        return failures.not_found(self.plural, self.group, name)

    def conflict(self, name: str, why: str = failures.MODIFIED) -> StatusError:
        """Return the refusal for a precondition that does not hold."""
        return failures.conflict(self.plural, self.group, name, why)
