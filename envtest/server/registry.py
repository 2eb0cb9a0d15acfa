"""Which resources are served now: the built-in ones, and those of established CRDs."""

from collections.abc import Iterator

from envtest.server.resource import Resource


class Registry:
    """Resources by group, version and plural."""

    def __init__(self) -> None:
        self._resources: dict[tuple[str, str, str], Resource] = {}
        # Versions of a group in order of preference; the first is the preferred one.
        self._versions: dict[str, list[str]] = {}
        # Raised with every change, for documents that are built from the registry and cached.
        self.generation = 0

    def add(self, resource: Resource) -> None:
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
        served = {(key[0], key[1]) for key in self._resources}
        self._versions = {
            name: left
            for name, versions in self._versions.items()
            if (left := [version for version in versions if (name, version) in served])
        }
        self.generation += 1

    def find(self, group: str, version: str, plural: str) -> Resource | None:
        """Return a resource, if it is served."""
        return self._resources.get((group, version, plural))

    def groups(self) -> dict[str, list[str]]:
        """Return the versions of each group, preferred first; groups in alphabetical order."""
        return {name: list(self._versions[name]) for name in sorted(self._versions)}

    def in_version(self, group: str, version: str) -> list[Resource]:
        """Return the resources of one group version, by plural."""
        found = [r for r in self if (r.group, r.version) == (group, version)]
        return sorted(found, key=lambda resource: resource.plural)

    def __iter__(self) -> Iterator[Resource]:
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


def _digits(text: str) -> int:
    return next((at for at, char in enumerate(text) if not char.isdigit()), len(text))
