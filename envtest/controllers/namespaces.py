"""The namespace controller, which empties terminating namespaces and then deletes them."""

from collections import Counter
from collections.abc import Iterator

import anyio

from envtest.controllers.metadata import decode_metadata
from envtest.server.api import Api
from envtest.server.deletes import remove_or_terminate
from envtest.server.objectmeta import Body, format_current_time
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
        """Process all terminating namespaces after every change, until cancelled."""
        while True:
            # Fetched before the pass, so that no change during the pass is missed.
            next_change = self._api.store.get_next_change()
            for name in self._list_terminating():
                self._empty_namespace(name)
            await next_change.wait()
            # Let requests run that are in progress, so that one pass covers all their changes.
            await anyio.lowlevel.checkpoint()

    def _list_terminating(self) -> list[str]:
        """Return the names of terminating namespaces."""
        table = self._api.get_table(self._namespaces)
        names = []
        for key in table.iterate_keys():
            stored = table.get(key)
            if stored is not None and _is_terminating(stored.body):
                names.append(key)
        return names

    def _empty_namespace(self, name: str) -> None:
        """Delete all objects in a namespace; remove its finalizer once none remains."""
        remaining: Counter[str] = Counter()
        finalizers: Counter[str] = Counter()
        # The versions of a kind show the same table, which is emptied once.
        for resource in {r.table_name: r for r in self._api.registry if r.namespaced}.values():
            table = self._api.get_table(resource)
            for key in list(table.iterate_keys(f"{name}/")):
                stored = table.get(key)
                # Objects that are terminating already are left to their finalizers.
                if stored is not None and not _is_terminating(stored.body):
                    remove_or_terminate(
                        self._api,
                        resource,
                        stored=stored,
                        options={"propagationPolicy": "Background"},
                    )
                stored = table.get(key)
                if stored is not None:
                    remaining[f"{resource.plural}.{resource.group}"] += 1
                    finalizers.update(decode_metadata(stored.body).finalizers)
        self._write_conditions(name, remaining, finalizers)
        if not remaining:
            self._remove_finalizer(name)

    def _write_conditions(
        self, name: str, remaining: Counter[str], finalizers: Counter[str]
    ) -> None:
        """Report the remaining objects and finalizers in the namespace's conditions.

        Args:
            name: the namespace.
            remaining: the number of remaining objects by resource.
            finalizers: the number of objects by finalizer.
        """
        stored = self._api.get_table(self._namespaces).get(name)
        if stored is None:
            return
        body = self._namespaces.decode_object(stored)
        old_conditions = {
            condition["type"]: condition for condition in body["status"].get("conditions", ())
        }
        conditions = []
        for condition in _build_conditions(remaining, finalizers):
            old_condition = old_conditions.pop(condition["type"], {})
            has_same_status = old_condition.get("status") == condition["status"]
            since = (
                old_condition["lastTransitionTime"] if has_same_status else format_current_time()
            )
            conditions.append({**condition, "lastTransitionTime": since})
        # Conditions of other types stay.
        conditions += old_conditions.values()
        if conditions != body["status"].get("conditions"):
            body["status"]["conditions"] = conditions
            stored_form = self._namespaces.to_stored_form(body)
            self._api.store.write(self._namespaces.table_name, name, stored_form)

    def _remove_finalizer(self, name: str) -> None:
        """Remove the finalizer of a terminating namespace; delete it if that was the last."""
        stored = self._api.get_table(self._namespaces).get(name)
        if stored is None:
            return
        body = self._namespaces.decode_object(stored)
        finalizers = body.get("spec", {}).get("finalizers") or []
        if _FINALIZER not in finalizers:
            return
        body["spec"]["finalizers"] = [
            finalizer for finalizer in finalizers if finalizer != _FINALIZER
        ]
        if self._namespaces.rules.can_be_removed(body):
            self._api.store.delete(self._namespaces.table_name, name)
        else:
            stored_form = self._namespaces.to_stored_form(body)
            self._api.store.write(self._namespaces.table_name, name, stored_form)


def _is_terminating(body: bytes) -> bool:
    """Return whether a stored object has a deletionTimestamp in its metadata."""
    # The search is quick and spares most objects the decoding. A label may have the same name.
    if b'"deletionTimestamp"' not in body:
        return False
    return decode_metadata(body).deletionTimestamp != ""


def _build_conditions(remaining: Counter[str], finalizers: Counter[str]) -> Iterator[Body]:
    """Yield the conditions of a terminating namespace, in the real controller's words."""
    yield _build_condition("DeletionDiscoveryFailure", "ResourcesDiscovered", _DISCOVERED)
    yield _build_condition("DeletionGroupVersionParsingFailure", "ParsedGroupVersions", _PARSED)
    yield _build_condition("DeletionContentFailure", "ContentDeleted", _DELETED)
    if remaining:
        counts = ", ".join(
            f"{name} has {remaining[name]} resource instances" for name in sorted(remaining)
        )
        message = f"Some resources are remaining: {counts}"
        yield _build_condition("ContentRemaining", "SomeResourcesRemain", message, status="True")
    else:
        message = "All content successfully removed"
        yield _build_condition("ContentRemaining", "ContentRemoved", message)
    if finalizers:
        counts = ", ".join(
            f"{name} in {finalizers[name]} resource instances" for name in sorted(finalizers)
        )
        message = f"Some content in the namespace has finalizers remaining: {counts}"
        yield _build_condition(
            "FinalizersRemaining", "SomeFinalizersRemain", message, status="True"
        )
    else:
        message = "All content-preserving finalizers finished"
        yield _build_condition("FinalizersRemaining", "ContentHasNoFinalizers", message)


def _build_condition(name: str, reason: str, message: str, *, status: str = "False") -> Body:
    """Return a condition of a terminating namespace, without the time of its transition."""
    return {"type": f"Namespace{name}", "status": status, "reason": reason, "message": message}
