"""How the server itself writes: as `kube-apiserver`, past authorization and admission."""

from typing import Any, Final

from envtest.patching import track_update
from envtest.server import objectmeta
from envtest.server.api import Api
from envtest.server.resource import Resource

MANAGER: Final = "kube-apiserver"

Body = dict[str, Any]


class Writer:
    """Reads and writes objects of built-in kinds."""

    def __init__(self, api: Api) -> None:
        self._api = api

    def find(self, group: str, plural: str) -> Resource:
        """Return a built-in resource; all that are asked for have a version v1."""
        resource = self._api.registry.find(group, "v1", plural)
        assert resource is not None
        return resource

    def get(self, resource: Resource, meta: Body) -> Body | None:
        """Return the object of this name and namespace, free to be changed."""
        stored = self._api.table(resource).get(_key(resource, meta))
        return None if stored is None else resource.load(stored)

    def create(self, resource: Resource, body: Body) -> None:
        """Store a new object with its status, if it has one; its fields are the server's."""
        status = body.get("status")
        body = {"apiVersion": resource.api_version, "kind": resource.kind, **body}
        resource.rules.default(body)
        self._track(resource, None, body)
        resource.rules.prepare_create(body)
        if status is not None:
            body["status"] = status
        objectmeta.fill_in(body["metadata"])
        self._store(resource, body)

    def update(self, resource: Resource, live: Body, body: Body) -> None:
        """Store an object anew unless it is as it was.

        Args:
            resource: what it is.
            live: the object as `get` returned it.
            body: a copy with changes; it may share what is not changed.
        """
        if body == live:
            return
        self._track(resource, live, body)
        if resource.rules.counts_generations and resource.rules.is_new_generation(body, live):
            body["metadata"]["generation"] = live["metadata"].get("generation", 0) + 1
        self._store(resource, body)

    def delete(self, resource: Resource, live: Body) -> None:
        """Remove an object."""
        key = _key(resource, live["metadata"])
        self._api.store.delete(resource.place, key)

    def _track(self, resource: Resource, live: Body | None, body: Body) -> None:
        track_update(
            live,
            body,
            manager=MANAGER,
            fields=resource.rules.model(),
            api_version=resource.api_version,
            now=objectmeta.timestamp(),
        )

    def _store(self, resource: Resource, body: Body) -> None:
        key = _key(resource, body["metadata"])
        self._api.store.write(resource.place, key, resource.stored_form(body))


def _key(resource: Resource, meta: Body) -> str:
    return resource.key(meta.get("namespace", ""), meta["name"])
