"""The garbage collector, which deletes or orphans the dependents of deleted owners.

It follows kube-controller-manager. Background: an object is deleted after its last owner.
Foreground: the owner is deleted after the dependents that block it. Orphan: the references to the
owner are removed. Every change of the store updates the graph of owners and dependents.
"""

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import anyio
import msgspec

from controller.managedfields.gotext import quote
from envtest.controllers.metadata import StoredMeta, StoredOwner, decode_metadata
from envtest.server import objectmeta
from envtest.server.api import Api
from envtest.server.deletes import remove_or_terminate
from envtest.server.objectmeta import Body
from envtest.server.resource import StoredResource
from envtest.storage import StoredChange, StoredObject

FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"
# A delay before processing, in which a client can create an owner and then its dependents.
_DELAY_SECONDS = 0.5
_MOST_DELETED_OWNERS = 10_000
_REPORTER = "garbage-collector-controller"


@dataclass(slots=True)
class _SortedOwners:
    """The uids of an object's owners: existing, missing, and waiting for this dependent to go."""

    existing: list[str]
    missing: list[str]
    waiting: list[str]


@dataclass(frozen=True, slots=True)
class _Node:
    """One object in the graph."""

    table_name: str
    key: str
    meta: StoredMeta


class GarbageCollector:
    """Deletes objects whose owners are gone, as kube-controller-manager does."""

    def __init__(self, api: Api) -> None:
        self._api = api
        # By uid.
        self._nodes: dict[str, _Node] = {}
        # Uid of an owner, which need not exist -> the uids of the objects that name it.
        self._dependents: dict[str, set[str]] = {}
        # The uids of the objects to process next.
        self._queue: set[str] = set()
        # The uids of dependent and owner for which an event was recorded.
        self._reported_owners: set[tuple[str, str]] = set()
        # The uids of deleted objects, the latest last. An owner cannot be looked up if its kind
        # was deleted with it.
        self._deleted_owners: dict[str, None] = {}
        for table in api.store.list_tables():
            for key in table.iterate_keys():
                stored = table.get(key)
                if stored is not None:
                    self._update_graph(table.name, stored)
        api.store.listeners.append(self._track_change)

    async def run(self) -> None:
        """Process queued objects until cancelled."""
        while True:
            if not self._queue:
                # Only a change of the store can queue an object.
                await self._api.store.get_next_change().wait()
                continue
            # A client may be creating an owner and then its dependents.
            await anyio.sleep(_DELAY_SECONDS)
            queued_uids, self._queue = self._queue, set()
            for uid in queued_uids:
                node = self._nodes.get(uid)
                if node is not None:
                    self._process_node(node)

    def _track_change(self, table_name: str, event: StoredChange) -> None:
        """Update the graph by one change in a table, and queue the objects that it concerns."""
        if event.type == "DELETED":
            uid = decode_metadata(event.current.body).uid
            node = self._nodes.pop(uid, None)
            if node is not None:
                for owner in node.meta.ownerReferences:
                    self._dependents.get(owner.uid, set()).discard(uid)
                    self._queue.add(owner.uid)
            self._remember_deletion(uid)
            self._queue |= self._dependents.get(uid, set())
        else:
            self._update_graph(table_name, event.current)

    def _remember_deletion(self, uid: str) -> None:
        """Remember the uid of a deleted object; drop the record of reports about it."""
        self._reported_owners = {pair for pair in self._reported_owners if uid not in pair}
        self._deleted_owners[uid] = None
        if len(self._deleted_owners) > _MOST_DELETED_OWNERS:
            # The first key is the uid that was added first.
            del self._deleted_owners[next(iter(self._deleted_owners))]

    def _update_graph(self, table_name: str, stored: StoredObject) -> None:
        """Add an object to the graph, or update it.

        Queue its owners, and the object itself if it has owners or is terminating.
        """
        meta = decode_metadata(stored.body)
        former_node = self._nodes.get(meta.uid)
        if former_node is not None:
            for owner in former_node.meta.ownerReferences:
                self._dependents.get(owner.uid, set()).discard(meta.uid)
        self._nodes[meta.uid] = _Node(table_name, stored.key, meta)
        for owner in meta.ownerReferences:
            self._dependents.setdefault(owner.uid, set()).add(meta.uid)
            self._queue.add(owner.uid)
        if meta.ownerReferences or meta.deletionTimestamp:
            self._queue.add(meta.uid)

    def _process_node(self, node: _Node) -> None:
        """Process one object.

        A terminating object orphans or deletes its dependents, if its finalizers say so. Any other
        object with owners is deleted if none of them exists.
        """
        deletion_marks = node.meta.finalizers if node.meta.deletionTimestamp else []
        if ORPHAN in deletion_marks:
            for dependent in self._list_dependents(node):
                self._remove_reference(dependent, node.meta.uid)
            self._remove_finalizer(node, ORPHAN)
        elif FOREGROUND in deletion_marks:
            self._delete_in_foreground(node)
        elif node.meta.ownerReferences and not node.meta.deletionTimestamp:
            self._keep_or_delete(node)

    def _keep_or_delete(self, node: _Node) -> None:
        """Delete an object, unless it has an owner that exists and does not wait for it.

        If it has such an owner, its references to all other owners are removed.
        """
        owners = self._sort_owners(node)
        if owners.existing:
            for uid in (*owners.missing, *owners.waiting):
                self._remove_reference(node, uid)
            return
        # The owners wait for this object, so it has to wait for its own dependents as well.
        if owners.waiting and self._dependents.get(node.meta.uid):
            self._unblock_owners_in_circle(node)
            self._delete(node, "Foreground")
            return
        # A finalizer that an earlier deletion or a client has set demands its policy.
        policies_by_finalizer = {ORPHAN: "Orphan", FOREGROUND: "Foreground"}
        policies = (
            policies_by_finalizer[finalizer]
            for finalizer in node.meta.finalizers
            if finalizer in policies_by_finalizer
        )
        self._delete(node, next(policies, "Background"))

    def _unblock_owners_in_circle(self, node: _Node) -> None:
        """Stop an object from blocking its owners, if a dependent of it is itself waiting.

        Otherwise owners in a circle would wait for one another forever.
        """

        def unblock_owners(meta: dict[str, Any]) -> None:
            """Let none of the owner references block its owner, in place."""
            for reference in meta["ownerReferences"]:
                reference["blockOwnerDeletion"] = False

        dependents = self._list_dependents(node)
        if any(FOREGROUND in dependent.meta.finalizers for dependent in dependents):
            self._change_metadata(node, unblock_owners)

    def _delete_in_foreground(self, node: _Node) -> None:
        """Delete dependents; remove the finalizer of the owner once none of them blocks it."""
        blocking_count = 0
        for dependent in self._list_dependents(node):
            reference = next(
                owner for owner in dependent.meta.ownerReferences if owner.uid == node.meta.uid
            )
            blocking_count += reference.blockOwnerDeletion
            if not dependent.meta.deletionTimestamp:
                self._keep_or_delete(dependent)
        if not blocking_count:
            self._remove_finalizer(node, FOREGROUND)

    def _sort_owners(self, node: _Node) -> _SortedOwners:
        """Return the uids of the owners by their state: existing, missing or waiting."""
        owners = _SortedOwners([], [], [])
        for reference in node.meta.ownerReferences:
            owner = self._find_owner(node, reference)
            if owner is None:
                owners.missing.append(reference.uid)
            elif owner.deletionTimestamp and FOREGROUND in owner.finalizers:
                owners.waiting.append(reference.uid)
            else:
                owners.existing.append(reference.uid)
        return owners

    def _find_owner(self, node: _Node, reference: StoredOwner) -> StoredMeta | None:
        """Return the metadata of an owner; None if the owner does not exist.

        An owner that cannot be looked up counts as existing: an owner of a kind that is not served
        (unless its deletion is remembered), or a namespaced owner of a cluster-scoped object.
        """
        resource = self._find_resource(reference)
        namespace = node.meta.namespace
        if resource is None:
            return None if reference.uid in self._deleted_owners else StoredMeta(reference.uid)
        if resource.namespaced and not namespace:
            self._report_foreign_owner(node, reference)
            return StoredMeta(reference.uid)
        key = resource.build_key(namespace, reference.name)
        stored = self._api.get_table(resource).get(key)
        meta = decode_metadata(stored.body) if stored else None
        if meta is not None and meta.uid == reference.uid:
            return meta
        # An owner in another namespace cannot own this object, so the reference is reported.
        foreign_owner = self._nodes.get(reference.uid)
        if foreign_owner is not None and foreign_owner.meta.namespace not in {"", namespace}:
            self._report_foreign_owner(node, reference)
        return None

    def _find_resource(self, reference: StoredOwner) -> StoredResource | None:
        """Return the resource of an owner's kind; None if that kind is not served."""
        group, _, version = reference.apiVersion.rpartition("/")
        resources = self._api.registry.list_version(group, version)
        return next((resource for resource in resources if resource.kind == reference.kind), None)

    def _report_foreign_owner(self, node: _Node, reference: StoredOwner) -> None:
        """Record an event about an owner in another namespace, once for each reference."""
        if (node.meta.uid, reference.uid) in self._reported_owners:
            return
        self._reported_owners.add((node.meta.uid, reference.uid))
        current = self._find_current(node)
        if current:
            message = (
                f"ownerRef [{reference.apiVersion}/{reference.kind}, namespace: "
                f"{node.meta.namespace}, name: {reference.name}, uid: {reference.uid}] "
                f"does not exist in namespace {quote(node.meta.namespace)}"
            )
            _record_event(self._api, *current, reason="OwnerRefInvalidNamespace", message=message)

    def _list_dependents(self, node: _Node) -> list[_Node]:
        """Return the objects that name an object as their owner, sorted by uid."""
        uids = sorted(self._dependents.get(node.meta.uid, ()))
        return [self._nodes[uid] for uid in uids if uid in self._nodes]

    def _find_current(self, node: _Node) -> tuple[StoredResource, StoredObject] | None:
        """Return an object's resource and stored state; None if it was deleted or recreated."""
        stored = self._api.store.get_table(node.table_name).get(node.key)
        resource = next((r for r in self._api.registry if r.table_name == node.table_name), None)
        if stored is None or resource is None:
            return None
        return (resource, stored) if decode_metadata(stored.body).uid == node.meta.uid else None

    def _delete(self, node: _Node, policy: str) -> None:
        """Delete an object with a propagationPolicy, unless it was deleted or recreated."""
        current = self._find_current(node)
        if current:
            remove_or_terminate(self._api, *current, {"propagationPolicy": policy})

    def _remove_reference(self, node: _Node, owner: str) -> None:
        """Remove the reference to the owner with this uid from an object."""

        def remove_reference(meta: dict[str, Any]) -> None:
            """Remove the reference from metadata, in place."""
            remaining = [
                reference
                for reference in meta.get("ownerReferences", ())
                if reference["uid"] != owner
            ]
            if remaining:
                meta["ownerReferences"] = remaining
            else:
                meta.pop("ownerReferences", None)

        self._change_metadata(node, remove_reference)

    def _change_metadata(self, node: _Node, change: Callable[[dict[str, Any]], None]) -> None:
        """Change the metadata of an object, unless it was deleted or recreated."""
        current = self._find_current(node)
        if current:
            resource, stored = current
            body = msgspec.json.decode(stored.body)
            change(body["metadata"])
            self._api.store.write(resource.table_name, stored.key, body)

    def _remove_finalizer(self, node: _Node, finalizer: str) -> None:
        """Remove a finalizer; delete the object if it was the last one."""
        current = self._find_current(node)
        if not current:
            return
        resource, stored = current
        body = msgspec.json.decode(stored.body)
        meta = body["metadata"]
        remaining = [name for name in meta.get("finalizers", ()) if name != finalizer]
        if remaining:
            meta["finalizers"] = remaining
        else:
            meta.pop("finalizers", None)
        if resource.rules.can_be_removed(body):
            self._api.store.delete(resource.table_name, stored.key)
        else:
            self._api.store.write(resource.table_name, stored.key, body)


def _record_event(
    api: Api, resource: StoredResource, stored: StoredObject, *, reason: str, message: str
) -> None:
    """Store a Warning event about an object; for a cluster-scoped one in `default`."""
    meta = msgspec.json.decode(stored.body)["metadata"]
    namespace = meta.get("namespace", "default")
    name = f"{meta['name']}.{secrets.token_hex(8)}"
    now = objectmeta.format_current_time()
    event_meta: Body = {"name": name, "namespace": namespace}
    objectmeta.set_creation_fields(event_meta)
    body: Body = {
        "metadata": event_meta,
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
