"""Owner references: dependents go with their last owner or before it, or are orphaned.

Follows kube-controller-manager: background (an object whose owners are all gone is deleted),
foreground (the owner waits for the dependents that block it) and orphan (the references are cut).
The graph of owners is kept up to date by the store's own changes; nothing is read twice.
"""

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import anyio
import msgspec

from controller.managedfields.gotext import quote
from envtest.server import objectmeta
from envtest.server.api import Api
from envtest.server.deletes import remove
from envtest.server.objectmeta import Body
from envtest.server.resource import StoredResource
from envtest.storage import Stored, StoredChange

FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"
# Time for a client that makes an owner and its dependents one after the other.
_DELAY_SECONDS = 0.5
_MOST_GONE = 10_000
_REPORTER = "garbage-collector-controller"


class _Owner(msgspec.Struct):
    uid: str
    apiVersion: str = ""  # the API's own names
    kind: str = ""
    name: str = ""
    blockOwnerDeletion: bool = False


class _Meta(msgspec.Struct):
    uid: str
    name: str = ""
    namespace: str = ""
    finalizers: list[str] = []
    ownerReferences: list[_Owner] = []
    deletionTimestamp: str = ""


class _Object(msgspec.Struct):
    metadata: _Meta


@dataclass(slots=True)
class _Owners:
    """An object's references: to owners that live, that are gone, and that wait for it to go."""

    solid: list[str]
    dangling: list[str]
    waiting: list[str]


_decode = msgspec.json.Decoder(_Object).decode


@dataclass(frozen=True, slots=True)
class _Node:
    """One object as the collector sees it."""

    place: str
    key: str
    meta: _Meta


class GarbageCollector:
    """Deletes objects whose owners are gone, as kube-controller-manager does."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._nodes: dict[str, _Node] = {}
        self._dependents: dict[str, set[str]] = {}
        self._due: set[str] = set()
        # Dependents and owners that an event named.
        self._reported: set[tuple[str, str]] = set()
        # Owners that were seen to go, the latest last: their kind may have gone with them.
        self._gone: dict[str, None] = {}
        for table in api.store.tables():
            for key in table.scan():
                stored = table.get(key)
                if stored is not None:
                    self._enter(table.place, stored)
        api.store.listeners.append(self._notice)

    async def run(self) -> None:
        """Work until cancelled."""
        while True:
            changed = self._api.store.next_change()
            if not self._due:
                await changed.wait()
                continue
            await anyio.sleep(_DELAY_SECONDS)
            due, self._due = self._due, set()
            for uid in due:
                node = self._nodes.get(uid)
                if node is not None:
                    self._judge(node)

    def _notice(self, place: str, event: StoredChange) -> None:
        """Keep the graph up to date with one change."""
        if event.type == "DELETED":
            uid = _decode(event.current.body).metadata.uid
            node = self._nodes.pop(uid, None)
            if node is not None:
                for owner in node.meta.ownerReferences:
                    self._dependents.get(owner.uid, set()).discard(uid)
                    self._due.add(owner.uid)
            self._forget(uid)
            self._due |= self._dependents.get(uid, set())
        else:
            self._enter(place, event.current)

    def _forget(self, uid: str) -> None:
        """Drop an object from the graph, and remember for a time that it is gone."""
        self._reported = {pair for pair in self._reported if uid not in pair}
        self._gone[uid] = None
        if len(self._gone) > _MOST_GONE:
            del self._gone[next(iter(self._gone))]

    def _enter(self, place: str, stored: Stored) -> None:
        """Add an object to the graph, or update it, and queue what may have to be deleted."""
        meta = _decode(stored.body).metadata
        before = self._nodes.get(meta.uid)
        if before is not None:
            for owner in before.meta.ownerReferences:
                self._dependents.get(owner.uid, set()).discard(meta.uid)
        self._nodes[meta.uid] = _Node(place, stored.key, meta)
        for owner in meta.ownerReferences:
            self._dependents.setdefault(owner.uid, set()).add(meta.uid)
            self._due.add(owner.uid)
        if meta.ownerReferences or meta.deletionTimestamp:
            self._due.add(meta.uid)

    def _judge(self, node: _Node) -> None:
        """Delete, orphan or keep an object according to its owners and its own deletion."""
        marks = node.meta.finalizers if node.meta.deletionTimestamp else []
        if ORPHAN in marks:
            for dependent in self._dependents_of(node):
                self._remove_reference(dependent, node.meta.uid)
            self._release(node, ORPHAN)
        elif FOREGROUND in marks:
            self._foreground(node)
        elif node.meta.ownerReferences and not node.meta.deletionTimestamp:
            self._keep_or_delete(node)

    def _keep_or_delete(self, node: _Node) -> None:
        """Delete an object with no living owner; forget the dead ones of an object with some."""
        owners = self._owners(node)
        if owners.solid:
            for uid in (*owners.dangling, *owners.waiting):
                self._remove_reference(node, uid)
            return
        if owners.waiting and self._dependents.get(node.meta.uid):
            self._unblock(node)
            self._delete(node, "Foreground")
            return
        marks = {ORPHAN: "Orphan", FOREGROUND: "Foreground"}
        policies = (marks[finalizer] for finalizer in node.meta.finalizers if finalizer in marks)
        self._delete(node, next(policies, "Background"))

    def _unblock(self, node: _Node) -> None:
        """Break a circle of owners that wait for each other."""
        if any(FOREGROUND in dependent.meta.finalizers for dependent in self._dependents_of(node)):
            self._amend(
                node,
                lambda meta: meta.update(
                    ownerReferences=[
                        {**reference, "blockOwnerDeletion": False}
                        for reference in meta["ownerReferences"]
                    ]
                ),
            )

    def _foreground(self, node: _Node) -> None:
        """Delete dependents; remove the finalizer of the owner once none of them blocks it."""
        blocking = 0
        for dependent in self._dependents_of(node):
            reference = next(
                owner for owner in dependent.meta.ownerReferences if owner.uid == node.meta.uid
            )
            blocking += reference.blockOwnerDeletion
            if not dependent.meta.deletionTimestamp:
                self._keep_or_delete(dependent)
        if not blocking:
            self._release(node, FOREGROUND)

    def _owners(self, node: _Node) -> _Owners:
        """Look up the owner of each reference."""
        owners = _Owners([], [], [])
        for reference in node.meta.ownerReferences:
            owner = self._look_up(node, reference)
            if owner is None:
                owners.dangling.append(reference.uid)
            elif owner.deletionTimestamp and FOREGROUND in owner.finalizers:
                owners.waiting.append(reference.uid)
            else:
                owners.solid.append(reference.uid)
        return owners

    def _look_up(self, node: _Node, reference: _Owner) -> _Meta | None:
        """Return an owner's metadata, None if there is no such owner.

        What cannot be looked up counts as there: a kind that is not served, or a namespaced owner
        of an object that is in no namespace.
        """
        resource = self._resource_of(reference)
        namespace = node.meta.namespace
        if resource is None:
            return None if reference.uid in self._gone else _Meta(reference.uid)
        if resource.namespaced and not namespace:
            self._report_foreign_owner(node, reference)
            return _Meta(reference.uid)
        key = resource.key(namespace, reference.name)
        stored = self._api.table(resource).get(key)
        meta = _decode(stored.body).metadata if stored else None
        if meta is not None and meta.uid == reference.uid:
            return meta
        elsewhere = self._nodes.get(reference.uid)
        if elsewhere is not None and elsewhere.meta.namespace not in {"", namespace}:
            self._report_foreign_owner(node, reference)
        return None

    def _resource_of(self, reference: _Owner) -> StoredResource | None:
        group, _, version = reference.apiVersion.rpartition("/")
        resources = self._api.registry.list_version(group, version)
        return next((resource for resource in resources if resource.kind == reference.kind), None)

    def _report_foreign_owner(self, node: _Node, reference: _Owner) -> None:
        """Record an event, once, that an owner is in another namespace."""
        if (node.meta.uid, reference.uid) in self._reported:
            return
        self._reported.add((node.meta.uid, reference.uid))
        current = self._find(node)
        if current:
            message = (
                f"ownerRef [{reference.apiVersion}/{reference.kind}, namespace: "
                f"{node.meta.namespace}, name: {reference.name}, uid: {reference.uid}] "
                f"does not exist in namespace {quote(node.meta.namespace)}"
            )
            _record(self._api, *current, reason="OwnerRefInvalidNamespace", message=message)

    def _dependents_of(self, node: _Node) -> list[_Node]:
        uids = sorted(self._dependents.get(node.meta.uid, ()))
        return [self._nodes[uid] for uid in uids if uid in self._nodes]

    def _find(self, node: _Node) -> tuple[StoredResource, Stored] | None:
        """Return an object as it is now, if it is still the same one."""
        stored = self._api.store.table(node.place).get(node.key)
        resource = next((r for r in self._api.registry if r.place == node.place), None)
        if stored is None or resource is None:
            return None
        return (resource, stored) if _decode(stored.body).metadata.uid == node.meta.uid else None

    def _delete(self, node: _Node, policy: str) -> None:
        current = self._find(node)
        if current:
            remove(self._api, *current, {"propagationPolicy": policy})

    def _remove_reference(self, node: _Node, owner: str) -> None:
        """Remove one owner reference."""

        def change(meta: dict[str, Any]) -> None:
            kept = [
                reference
                for reference in meta.get("ownerReferences", ())
                if reference["uid"] != owner
            ]
            meta["ownerReferences"] = kept
            if not kept:
                del meta["ownerReferences"]

        self._amend(node, change)

    def _amend(self, node: _Node, change: Callable[[dict[str, Any]], None]) -> None:
        """Change an object's metadata, if it is still the same one."""
        current = self._find(node)
        if current:
            resource, stored = current
            body = msgspec.json.decode(stored.body)
            change(body["metadata"])
            self._api.store.write(resource.place, stored.key, body)

    def _release(self, node: _Node, finalizer: str) -> None:
        """Remove a finalizer; the object goes with its last one."""
        current = self._find(node)
        if not current:
            return
        resource, stored = current
        body = msgspec.json.decode(stored.body)
        meta = body["metadata"]
        kept = [name for name in meta.get("finalizers", ()) if name != finalizer]
        if kept:
            meta["finalizers"] = kept
        else:
            meta.pop("finalizers", None)
        if resource.rules.is_finished(body):
            self._api.store.delete(resource.place, stored.key)
        else:
            self._api.store.write(resource.place, stored.key, body)


def _record(
    api: Api, resource: StoredResource, stored: Stored, *, reason: str, message: str
) -> None:
    """Store a warning about an object; what is in no namespace has its events in `default`."""
    meta = msgspec.json.decode(stored.body)["metadata"]
    namespace = meta.get("namespace", "default")
    name = f"{meta['name']}.{secrets.token_hex(8)}"
    now = objectmeta.timestamp()
    own: Body = {"name": name, "namespace": namespace}
    objectmeta.fill_in_new(own)
    body: Body = {
        "metadata": own,
        "involvedObject": {
            "kind": resource.kind,
            "namespace": meta.get("namespace", ""),
            "name": meta["name"],
            "uid": meta["uid"],
            "apiVersion": resource.api_version,
            "resourceVersion": meta["resourceVersion"],
        },
        "reason": reason,
        "message": message,
        "source": {"component": _REPORTER},
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
        "type": "Warning",
        "eventTime": None,
        "reportingComponent": _REPORTER,
        "reportingInstance": "",
    }
    api.store.write("events", f"{namespace}/{name}", body)
