"""Served resources, each a kind in one version with its names and rules, and their registry."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from controller.managedfields import Versions
from envtest.server import failures
from envtest.server.failures import StatusError
from envtest.server.rules import Rules
from envtest.storage import StoredObject

MAIN_VERBS = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")

_decode = msgspec.json.Decoder().decode


@dataclass(frozen=True, slots=True, eq=False)
class StoredResource:
    """A resource in one version; all versions of a kind share one table of the store."""

    group: str
    version: str
    plural: str
    kind: str
    list_kind: str
    singular: str
    namespaced: bool
    rules: Rules
    verbs: tuple[str, ...] = MAIN_VERBS
    # Subresource -> its entry in discovery, with kind and verbs.
    subresources: dict[str, dict[str, Any]] = field(default_factory=dict)
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    # The warning to clients that use a deprecated version.
    deprecation: str = ""
    # The table that holds the objects. Resources with the same objects share it: the versions
    # of a kind, and the two groups of events.
    table_name: str = ""
    # Convert a body without apiVersion and kind; None if this version is stored as it is.
    to_version: Callable[[dict[str, Any]], dict[str, Any]] | None = None
    to_storage: Callable[[dict[str, Any]], dict[str, Any]] | None = None
    # Converts objects to other versions, whose managers own fields; None for a single version.
    versions: Versions | None = None
    # `group/version`, and the bytes with which each encoded object begins. Computed once.
    api_version: str = field(init=False, repr=False)
    head: bytes = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Compute the fields that follow from the names."""
        version = f"{self.group}/{self.version}" if self.group else self.version
        names = [f'"kind":"{self.kind}"', f'"apiVersion":"{version}"']
        # kube-apiserver encodes custom resources with their keys in alphabetical order.
        if self.rules.is_custom:
            names.reverse()
        object.__setattr__(self, "api_version", version)
        object.__setattr__(self, "head", f"{{{','.join(names)},".encode())

    def build_key(self, namespace: str, name: str) -> str:
        """Return the key of an object in its table."""
        return f"{namespace}/{name}" if self.namespaced else name

    def encode_body(self, stored: StoredObject) -> bytes:
        """Return an object's JSON in this version, without apiVersion and kind."""
        if self.to_version is None:
            return stored.body
        return msgspec.json.encode(self.to_version(_decode(stored.body)), order="sorted")

    def encode_object(self, stored: StoredObject) -> bytes:
        """Return an object's JSON in this version."""
        return self.head + self.encode_body(stored)[1:]

    def decode_object(self, stored: StoredObject) -> dict[str, Any]:
        """Return a decoded copy of an object in this version, with apiVersion and kind."""
        body = _decode(stored.body)
        if self.to_version is not None:
            body = self.to_version(body)
        return {"apiVersion": self.api_version, "kind": self.kind, **body}

    def to_stored_form(self, body: dict[str, Any]) -> dict[str, Any]:
        """Return a copy of an object in the storage version, without apiVersion and kind.

        The metadata is a copy as well, because the store sets its resourceVersion.
        """
        fields = {name: body[name] for name in body if name not in {"apiVersion", "kind"}}
        fields["metadata"] = dict(fields["metadata"])
        return self.to_storage(fields) if self.to_storage else fields

    def build_not_found_error(self, name: str) -> StatusError:
        """Return 404 for an object of this resource."""
        return failures.build_not_found(self.plural, self.group, name)

    def build_conflict_error(self, name: str, why: str = failures.MODIFIED) -> StatusError:
        """Return 409 for an object of this resource whose precondition does not hold."""
        return failures.build_conflict(self.plural, self.group, name=name, why=why)


class Registry:
    """Resources by group, version and plural."""

    def __init__(self) -> None:
        self._resources: dict[tuple[str, str, str], StoredResource] = {}
        # Versions of a group in order of preference; the first is the preferred one.
        self._versions: dict[str, list[str]] = {}
        # Raised with every change, for documents that are built from the registry and cached.
        self.generation = 0

    def add(self, resource: StoredResource) -> None:
        """Serve a resource, in place of a previous one with the same names."""
        self._resources[resource.group, resource.version, resource.plural] = resource
        versions = self._versions.setdefault(resource.group, [])
        if resource.version not in versions:
            versions.append(resource.version)
            versions.sort(key=rank_version)
        self.generation += 1

    def remove(self, group: str, plural: str) -> None:
        """Stop serving all versions of a resource; drop groups and versions that become empty."""
        self._resources = {
            key: resource
            for key, resource in self._resources.items()
            if (key[0], key[2]) != (group, plural)
        }
        group_versions = {(key[0], key[1]) for key in self._resources}
        remaining_versions = {
            name: [version for version in versions if (name, version) in group_versions]
            for name, versions in self._versions.items()
        }
        self._versions = {
            name: versions for name, versions in remaining_versions.items() if versions
        }
        self.generation += 1

    def find(self, group: str, version: str, plural: str) -> StoredResource | None:
        """Return a resource; None if it is not served."""
        return self._resources.get((group, version, plural))

    def list_groups(self) -> dict[str, list[str]]:
        """Return the versions of each group, preferred first; groups in alphabetical order."""
        return {name: list(self._versions[name]) for name in sorted(self._versions)}

    def list_version(self, group: str, version: str) -> list[StoredResource]:
        """Return the resources of one group version, sorted by plural."""
        members = [r for r in self if (r.group, r.version) == (group, version)]
        return sorted(members, key=lambda resource: resource.plural)

    def __iter__(self) -> Iterator[StoredResource]:
        return iter(list(self._resources.values()))


_KUBERNETES_VERSION = re.compile(r"v([0-9]+)(?:(beta|alpha)([0-9]+))?")
_STAGES = (None, "beta", "alpha")


def rank_version(version: str) -> tuple[int, int, int, str]:
    """Return a sorting key: v2 before v1 before v1beta2 before v1alpha1 before anything else.

    This is the order of apimachinery's CompareKubeAwareVersionStrings.
    """
    match = _KUBERNETES_VERSION.fullmatch(version)
    if match is None:
        # After all stages; among each other such versions are in alphabetical order.
        return (len(_STAGES), 0, 0, version)
    major, stage, minor = match.groups()
    # Negative, because the higher number comes first.
    return (_STAGES.index(stage), -int(major), -int(minor or 0), "")
