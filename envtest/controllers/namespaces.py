"""Namespace deletion: what is in a terminating namespace goes, then the namespace itself."""

from collections import Counter
from collections.abc import Iterator

import anyio
import msgspec

from envtest.server.api import Api
from envtest.server.deletes import remove
from envtest.server.objectmeta import Body, timestamp
from envtest.server.resource import StoredResource

_FINALIZER = "kubernetes"
_DISCOVERED = "All resources successfully discovered"
_PARSED = "All legacy kube types successfully parsed"
_DELETED = "All content successfully deleted, may be waiting on finalization"


class NamespaceController:
    """Empties terminating namespaces."""

    def __init__(self, api: Api) -> None:
        self._api = api
        resource = api.registry.find("", "v1", "namespaces")
        assert resource is not None
        self._namespaces: StoredResource = resource

    async def run(self) -> None:
        """Work until cancelled; every change of anything may be what a namespace waited for."""
        while True:
            changed = self._api.store.next_change()
            for name in self._terminating():
                self._advance(name)
            await changed.wait()
            # One sweep for a burst of changes, and time for the requests that make them.
            await anyio.lowlevel.checkpoint()

    def _terminating(self) -> list[str]:
        table = self._api.table(self._namespaces)
        names = []
        for key in table.scan():
            stored = table.get(key)
            if stored is not None and b'"deletionTimestamp"' in stored.body:
                names.append(key)
        return names

    def _advance(self, name: str) -> None:
        """Delete what is in a namespace; remove its finalizer once nothing is left."""
        remaining: Counter[str] = Counter()
        finalizers: Counter[str] = Counter()
        for resource in {r.place: r for r in self._api.registry if r.namespaced}.values():
            table = self._api.table(resource)
            for key in list(table.scan(f"{name}/")):
                stored = table.get(key)
                if stored is not None and b'"deletionTimestamp"' not in stored.body:
                    remove(
                        self._api,
                        resource,
                        stored=stored,
                        options={"propagationPolicy": "Background"},
                    )
                stored = table.get(key)
                if stored is not None:
                    remaining[f"{resource.plural}.{resource.group}"] += 1
                    finalizers.update(
                        msgspec.json.decode(stored.body)["metadata"].get("finalizers", ())
                    )
        self._write_conditions(name, remaining, finalizers)
        if not remaining:
            self._remove_finalizer(name)

    def _write_conditions(
        self, name: str, remaining: Counter[str], finalizers: Counter[str]
    ) -> None:
        """Write what is left into the namespace's conditions."""
        stored = self._api.table(self._namespaces).get(name)
        if stored is None:
            return
        body = self._namespaces.load(stored)
        before = {
            condition["type"]: condition for condition in body["status"].get("conditions", ())
        }
        conditions = []
        for condition in _conditions(remaining, finalizers):
            known = before.pop(condition["type"], {})
            same = known.get("status") == condition["status"]
            moment = known["lastTransitionTime"] if same else timestamp()
            conditions.append({**condition, "lastTransitionTime": moment})
        conditions += before.values()
        if conditions != body["status"].get("conditions"):
            body["status"]["conditions"] = conditions
            bare = self._namespaces.to_stored_form(body)
            self._api.store.write(self._namespaces.place, name, bare)

    def _remove_finalizer(self, name: str) -> None:
        """Remove the finalizer of a terminating namespace; delete it if that was the last."""
        stored = self._api.table(self._namespaces).get(name)
        if stored is None:
            return
        body = self._namespaces.load(stored)
        finalizers = body.get("spec", {}).get("finalizers") or []
        if "deletionTimestamp" not in body["metadata"] or _FINALIZER not in finalizers:
            return
        body["spec"]["finalizers"] = [
            finalizer for finalizer in finalizers if finalizer != _FINALIZER
        ]
        if self._namespaces.rules.is_finished(body):
            self._api.store.delete(self._namespaces.place, name)
        else:
            bare = self._namespaces.to_stored_form(body)
            self._api.store.write(self._namespaces.place, name, bare)


def _conditions(remaining: Counter[str], finalizers: Counter[str]) -> Iterator[Body]:
    """Yield the conditions of a terminating namespace, in the real controller's words."""
    yield _condition("DeletionDiscoveryFailure", "ResourcesDiscovered", _DISCOVERED)
    yield _condition("DeletionGroupVersionParsingFailure", "ParsedGroupVersions", _PARSED)
    yield _condition("DeletionContentFailure", "ContentDeleted", _DELETED)
    if remaining:
        counted = ", ".join(
            f"{name} has {remaining[name]} resource instances" for name in sorted(remaining)
        )
        message = f"Some resources are remaining: {counted}"
        yield _condition("ContentRemaining", "SomeResourcesRemain", message, status="True")
    else:
        message = "All content successfully removed"
        yield _condition("ContentRemaining", "ContentRemoved", message)
    if finalizers:
        counted = ", ".join(
            f"{name} in {finalizers[name]} resource instances" for name in sorted(finalizers)
        )
        message = f"Some content in the namespace has finalizers remaining: {counted}"
        yield _condition("FinalizersRemaining", "SomeFinalizersRemain", message, status="True")
    else:
        message = "All content-preserving finalizers finished"
        yield _condition("FinalizersRemaining", "ContentHasNoFinalizers", message)


def _condition(name: str, reason: str, message: str, *, status: str = "False") -> Body:
    return {"type": f"Namespace{name}", "status": status, "reason": reason, "message": message}
