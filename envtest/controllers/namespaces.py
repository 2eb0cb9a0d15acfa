"""Namespace deletion: what is in a terminating namespace goes, then the namespace itself."""

import anyio

from envtest.server.api import Api
from envtest.server.deletes import remove
from envtest.server.resource import Resource

_FINALIZER = "kubernetes"


class NamespaceController:
    """Empties terminating namespaces."""

    def __init__(self, api: Api) -> None:
        self._api = api
        found = api.registry.find("", "v1", "namespaces")
        assert found is not None
        self._namespaces: Resource = found

    async def run(self) -> None:
        """Work until cancelled; every change of anything may be what a namespace waited for."""
        while True:
            bell = self._api.store.bell()
            for name in self._terminating():
                self._advance(name)
            await bell.wait()
            # One sweep for a burst of changes, and time for the requests that make them.
            await anyio.lowlevel.checkpoint()

    def _terminating(self) -> list[str]:
        table = self._api.table(self._namespaces)
        found = []
        for key in table.scan():
            stored = table.get(key)
            if stored is not None and b'"deletionTimestamp"' in stored.body:
                found.append(key)
        return found

    def _advance(self, name: str) -> None:
        """Delete what is in a namespace; let it go once nothing is left."""
        left = 0
        for resource in {r.place: r for r in self._api.registry if r.namespaced}.values():
            table = self._api.table(resource)
            for key in list(table.scan(f"{name}/")):
                stored = table.get(key)
                if stored is not None and b'"deletionTimestamp"' not in stored.body:
                    remove(self._api, resource, stored, {"propagationPolicy": "Background"})
                left += table.get(key) is not None
        if not left:
            self._let_go(name)

    def _let_go(self, name: str) -> None:
        stored = self._api.table(self._namespaces).get(name)
        if stored is None:
            return
        body = self._namespaces.load(stored)
        finalizers = body.get("spec", {}).get("finalizers") or []
        if "deletionTimestamp" not in body["metadata"] or _FINALIZER not in finalizers:
            return
        body["spec"]["finalizers"] = [one for one in finalizers if one != _FINALIZER]
        bare = self._namespaces.stored_form(body)
        if self._namespaces.rules.is_finished(body):
            self._api.store.delete(self._namespaces.place, name, bare)
        else:
            self._api.store.write(self._namespaces.place, name, bare)
