"""Resources as they are served: a kind in a version, its names and rules; and all of them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from controller.managedfields import Versions
from envtest.server import failures
from envtest.server.failures import StatusError
from envtest.server.rules import Rules
from envtest.storage import Stored

MAIN_VERBS = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")

_decode = msgspec.json.Decoder().decode


@dataclass(frozen=True, slots=True, eq=False)
class StoredResource:
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
    # The warning to clients that use a deprecated version.
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

    def body_of(self, stored: Stored) -> bytes:
        """Return an object's JSON in this version, without apiVersion and kind."""
        if self.to_version is None:
            return stored.body
        return msgspec.json.encode(self.to_version(_decode(stored.body)), order="sorted")

    def json_of(self, stored: Stored) -> bytes:
        """Return an object's JSON in this version."""
        return self.head + self.body_of(stored)[1:]

    def load(self, stored: Stored) -> dict[str, Any]:
        """Return an object in this version, with apiVersion and kind, free to be changed."""
        body = _decode(stored.body)
        if self.to_version is not None:
            body = self.to_version(body)
        return {"apiVersion": self.api_version, "kind": self.kind, **body}

    def stored_form(self, body: dict[str, Any]) -> dict[str, Any]:
        """Return the stored form of an object of this version."""
        bare = {name: value for name, value in body.items() if name not in {"apiVersion", "kind"}}
        bare["metadata"] = dict(bare["metadata"])
        return self.to_storage(bare) if self.to_storage else bare

    def not_found(self, name: str) -> StatusError:
        """Return the refusal for a name that nothing has."""
        return failures.not_found(self.plural, self.group, name)

    def conflict(self, name: str, why: str = failures.MODIFIED) -> StatusError:
        """Return the refusal for a precondition that does not hold."""
        return failures.conflict(self.plural, self.group, name=name, why=why)


class Registry:
    """Resources by group, version and plural."""

    def __init__(self) -> None:
        self._resources: dict[tuple[str, str, str], StoredResource] = {}
        # Versions of a group in order of preference; the first is the preferred one.
        self._versions: dict[str, list[str]] = {}
        # Raised with every change, for documents that are built from the registry and cached.
        self.generation = 0

    def add(self, resource: StoredResource) -> None:
        """Serve a resource, or serve it anew."""
        self._resources[resource.group, resource.version, resource.plural] = resource
        versions = self._versions.setdefault(resource.group, [])
        if resource.version not in versions:
            versions.append(resource.version)
            versions.sort(key=version_rank)
        self.generation += 1

    def remove(self, group: str, plural: str) -> None:
        """Serve no version of a resource any more; groups and versions without any go, too."""
        self._resources = {
            key: resource
            for key, resource in self._resources.items()
            if (key[0], key[2]) != (group, plural)
        }
        group_versions = {(key[0], key[1]) for key in self._resources}
        self._versions = {
            name: kept_versions
            for name, versions in self._versions.items()
            if (
                kept_versions := [
                    version for version in versions if (name, version) in group_versions
                ]
            )
        }
        self.generation += 1

    def find(self, group: str, version: str, plural: str) -> StoredResource | None:
        """Return a resource, if it is served."""
        return self._resources.get((group, version, plural))

    def groups(self) -> dict[str, list[str]]:
        """Return the versions of each group, preferred first; groups in alphabetical order."""
        return {name: list(self._versions[name]) for name in sorted(self._versions)}

    def in_version(self, group: str, version: str) -> list[StoredResource]:
        """Return the resources of one group version, by plural."""
        members = [r for r in self if (r.group, r.version) == (group, version)]
        return sorted(members, key=lambda resource: resource.plural)

    def __iter__(self) -> Iterator[StoredResource]:
        return iter(list(self._resources.values()))


def version_rank(version: str) -> tuple[int, int, int, str]:
    """Return a sorting key: v2 before v1 before v1beta2 before v1alpha1 before anything else."""
    rest = version.removeprefix("v")
    number = "".join(char for char in rest[: _digits(rest)])
    if rest == version or not number:
        return (3, 0, 0, version)
    stage = rest[len(number) :]
    for rank, word in enumerate(("", "beta", "alpha")):
        tail = stage.removeprefix(word) if word else stage
        if (not word and not stage) or (word and stage.startswith(word) and tail.isdigit()):
            return (rank, -int(number), -int(tail or 0), "")
    return (3, 0, 0, version)


def _digits(version: str) -> int:
    return next((at for at, char in enumerate(version) if not char.isdigit()), len(version))
