"""One resource as it is served: a kind in a version, its names, and the rules behind it."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from envtest.patching import Versions
from envtest.schema.gotext import quote
from envtest.server import failures
from envtest.server.converting import WebhookConversion
from envtest.server.failures import StatusError
from envtest.server.objectmeta import path_segment_errors
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
    # The webhook that converts, and the apiVersion that is stored. Stored objects then carry their
    # apiVersion: after a change of the stored version there are some of either.
    conversion: WebhookConversion | None = None
    storage_version: str = ""
    # Objects as this version has them, by key and revision: those that were made ready last.
    shown: dict[tuple[str, int], bytes] = field(default_factory=dict, repr=False)

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

    async def ready(self, objects: Iterable[Stored]) -> None:
        """Make objects ready to be read in this version; a webhook may have to be asked.

        What is ready stays so until the next await: readers go on without one.

        Raises:
            StatusError: 500; the webhook fails.
        """
        if self.conversion is None:
            return
        shown: dict[tuple[str, int], bytes] = {}
        foreign: list[tuple[tuple[str, int], dict[str, Any]]] = []
        for stored in objects:
            body = self.raw(stored)
            if body["apiVersion"] == self.api_version:
                shown[stored.key, stored.revision] = self._fitted(body)
            else:
                foreign.append(((stored.key, stored.revision), body))
        bodies = [body for _, body in foreign]
        converted = await self.conversion.convert(bodies, self.api_version)
        for (place, _), body in zip(foreign, converted, strict=True):
            shown[place] = self._fitted(body)
        self.shown.clear()
        self.shown.update(shown)

    def _fitted(self, body: dict[str, Any]) -> bytes:
        bare = {name: value for name, value in body.items() if name not in {"apiVersion", "kind"}}
        fitted = self.to_version(bare) if self.to_version else bare
        return msgspec.json.encode(fitted, order="sorted")

    def raw(self, stored: Stored) -> dict[str, Any]:
        """Return an object in the version in which it is stored, free to be changed."""
        body: dict[str, Any] = _decode(stored.body)
        if self.conversion is None:
            return self.load(stored)
        return {"apiVersion": self.storage_version, "kind": self.kind, **body}

    def bare(self, stored: Stored) -> bytes:
        """Return an object's JSON in this version, without apiVersion and kind."""
        if self.conversion is not None:
            return self.shown[stored.key, stored.revision]
        if self.to_version is None:
            return stored.body
        return msgspec.json.encode(self.to_version(_decode(stored.body)), order="sorted")

    def dressed(self, stored: Stored) -> bytes:
        """Return an object's JSON in this version."""
        return self.head + self.bare(stored)[1:]

    def load(self, stored: Stored) -> dict[str, Any]:
        """Return an object in this version, with apiVersion and kind, free to be changed."""
        if self.conversion is not None:
            body = _decode(self.bare(stored))
        else:
            body = _decode(stored.body)
            if self.to_version is not None:
                body = self.to_version(body)
        return {"apiVersion": self.api_version, "kind": self.kind, **body}

    def stored_form(self, body: dict[str, Any]) -> dict[str, Any]:
        """Return what the store keeps of an object, which a webhook need not convert."""
        bare = {name: value for name, value in body.items() if name not in {"apiVersion", "kind"}}
        bare["metadata"] = dict(bare["metadata"])
        if self.conversion is not None:
            return {"apiVersion": body["apiVersion"], **bare}
        return self.to_storage(bare) if self.to_storage else bare

    async def kept_form(self, body: dict[str, Any]) -> dict[str, Any]:
        """Return what the store keeps of an object of this version.

        Raises:
            StatusError: 500; the webhook that has to convert it fails.
        """
        if self.conversion is None or self.storage_version == self.api_version:
            return self.stored_form(body)
        converted = await self.conversion.convert([body], self.storage_version)
        form = self.stored_form(converted[0])
        return self.to_storage(form) if self.to_storage else form

    def not_found(self, name: str) -> StatusError:
        """Return the refusal for a name that nothing has, or that nothing can have."""
        faults = path_segment_errors(name)
        if faults:
            text = f"Name parameter invalid: {quote(name)}: {';'.join(faults)}"
            return failures.bad_request(text)
        return failures.not_found(self.plural, self.group, name)

    def conflict(self, name: str, why: str = failures.MODIFIED) -> StatusError:
        """Return the refusal for a precondition that does not hold."""
        return failures.conflict(self.plural, self.group, name, why)
