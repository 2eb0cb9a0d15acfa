"""The kinds of our clusters on the fake API server, by plural, and what users do to them.

    server = Server(clock)
    server.add("networkpools", make.pool())
    server.fail(NoAnswer("timed out"), verb="patch", plural="networkpools")

Every write of our own kinds must carry a resourceVersion.
"""

import itertools
from typing import Any

from controller.clock import Clock
from controller.errors import Forbidden
from controller.meta import Key
from controller.resource import Resource
from controller.testing import FakeApi, Request
from tests.reconcilers.served import CLUSTER_SCOPED, KINDS, OPTIONAL, OURS

Json = dict[str, Any]

_clusters = itertools.count(1)


def resource(plural: str) -> Resource[Any]:
    """Return the Resource of a kind that the server can serve."""
    api_version, kind = KINDS[plural]
    group, _, version = api_version.rpartition("/")
    return Resource(group, version, kind, plural, dict, namespaced=plural not in CLUSTER_SCOPED)


_UPDATE = {
    "operation": "Update",
    "fieldsType": "FieldsV1",
    "fieldsV1": {"f:spec": {"f:fieldOfThisManager": {}}},
}
"""The default fields of an entry of managedFields."""


class Server(FakeApi):
    """A cluster's API server.

    Args:
        clock: gives the time for timestamps, and says when bookmarks are due.
        served_kinds: plurals of the kinds that are served.
    """

    def __init__(self, clock: Clock, served_kinds: tuple[str, ...] = ()) -> None:
        super().__init__(clock, initial_events=False, first_revision=100, user_agent="butler-ipam")
        self.admit = self._admit
        self.on_request = _check_precondition
        self.unknown: frozenset[str] = frozenset()
        """Names of status fields that are dropped, as if the CRD did not define them.

        `list.field` is a field of the entries of a list.
        """
        self._resources = {plural: resource(plural) for plural in KINDS}
        for kind in self._resources.values():
            self.serve(kind)
        self._plurals = tuple(KINDS)
        self.served = served_kinds or tuple(k for k in KINDS if k not in OPTIONAL)
        self.identity = f"uid-of-cluster-{next(_clusters)}"
        if "namespaces" in self.served:
            self.add("namespaces", {"metadata": {"name": "kube-system", "uid": self.identity}})
            self._history.log.clear()  # it was there before the test began

    @property
    def served(self) -> tuple[str, ...]:
        """Plurals of the kinds that are served."""
        return self._plurals

    @served.setter
    def served(self, plurals: tuple[str, ...]) -> None:
        for plural in set(self._plurals) - set(plurals):
            self.withdraw(self._resources[plural])
        for plural in set(plurals) - set(self._plurals):
            self.serve(self._resources[plural])
        self._plurals = plurals

    @property
    def objects(self) -> dict[tuple[str, str, str], Json]:
        """All objects by plural, namespace and name."""
        return {
            (plural, meta.get("namespace", ""), meta["name"]): obj
            for plural in KINDS
            for obj in self.all(plural)
            for meta in (obj["metadata"],)
        }

    # What tests do, as users would.

    def add(self, plural: str, body: Any) -> Json:
        """Create an object with its status, or replace the object of that name."""
        return self.put_object(self._resources[plural], body)

    def edit(
        self, plural: str, name: str, patch: Json, *, namespace: str = "butler-system"
    ) -> Json:
        """Merge a patch into an object and its status; complete entries of managedFields."""
        if managed := patch.get("metadata", {}).get("managedFields"):
            api_version = KINDS[plural][0]
            entries = [{"apiVersion": api_version, **_UPDATE, **entry} for entry in managed]
            patch = {**patch, "metadata": {**patch["metadata"], "managedFields": entries}}
        return self.edit_object(self._resources[plural], Key(namespace, name), patch)

    def delete(self, plural: str, name: str, *, namespace: str = "butler-system") -> None:
        """Delete an object as `kubectl delete` does: it stays until its finalizers are removed."""
        self.delete_object(self._resources[plural], Key(namespace, name))

    def vanish(self, plural: str, name: str, *, namespace: str = "butler-system") -> None:
        """Remove an object at once, even if it has finalizers."""
        self.remove_object(self._resources[plural], Key(namespace, name))

    def see(self, plural: str, name: str, *, namespace: str = "butler-system") -> Json:
        """Return a stored object; raise KeyError if it does not exist."""
        stored = self.find_object(self._resources[plural], Key(namespace, name))
        if stored is None:
            raise KeyError(plural, namespace, name)
        return stored

    def has(self, plural: str, name: str, *, namespace: str = "butler-system") -> bool:
        """Return whether an object exists."""
        return self.find_object(self._resources[plural], Key(namespace, name)) is not None

    def all(self, plural: str) -> list[Json]:
        """Return all stored objects of a kind."""
        return self.list_objects(self._resources[plural])

    def _admit(self, request: Request, old: Json | None, new: Json) -> Json:
        """Reject an IPAddressPool that MetalLB's webhook rejects; drop unknown status fields."""
        if new["kind"] == "IPAddressPool" and not new["spec"].get("addresses"):
            raise Forbidden(403, "Forbidden", "pool has no prefixes defined")
        if "status" not in new:
            return new
        return {**new, "status": _drop_fields(new["status"], self.unknown)}


def _drop_fields(status: Json, unknown: frozenset[str]) -> Json:
    """Return a status without the unknown fields, which are named as in `Server.unknown`."""
    remaining = {name: value for name, value in status.items() if name not in unknown}
    for name in unknown:
        field, _, inner = name.partition(".")
        if inner and remaining.get(field):
            remaining[field] = [
                {part: value for part, value in entry.items() if part != inner}
                for entry in remaining[field]
            ]
    return remaining


def _check_precondition(request: Request) -> None:
    """Fail if a patch of one of our own kinds does not carry a resourceVersion."""
    if request.method == "PATCH" and KINDS[request.plural][0] == OURS:
        version = request.body.get("metadata", {}).get("resourceVersion")
        assert version is not None, "a write of our kinds without a precondition"
