"""Owner references: dependents go with their last owner, before it, or are let go.

Follows kube-controller-manager: background (an object whose owners are all gone is deleted),
foreground (the owner waits for the dependents that block it) and orphan (the references are cut).
The graph of owners is kept up to date by the store's own changes; nothing is read twice.
"""

from dataclasses import dataclass

import anyio
import msgspec

from envtest.server.api import Api
from envtest.server.deletes import remove
from envtest.server.resource import Resource
from envtest.storage import Event, Stored

FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"
# Time for a client that makes an owner and its dependents one after the other.
_DELAY_SECONDS = 0.5


class _Owner(msgspec.Struct):
    uid: str
    blockOwnerDeletion: bool = False  # the API's own name


class _Meta(msgspec.Struct):
    uid: str
    namespace: str = ""
    finalizers: list[str] = []
    ownerReferences: list[_Owner] = []
    deletionTimestamp: str = ""


class _Object(msgspec.Struct):
    metadata: _Meta


_decode = msgspec.json.Decoder(_Object).decode


@dataclass(frozen=True, slots=True)
class _Node:
    """One object as the collector sees it."""

    place: str
    key: str
    meta: _Meta


class GarbageCollector:
    """Keeps the graph of owners and acts on it."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._nodes: dict[str, _Node] = {}
        self._dependents: dict[str, set[str]] = {}
        self._due: set[str] = set()
        for table in api.store.tables():
            for key in table.scan():
                stored = table.get(key)
                if stored is not None:
                    self._enter(table.place, stored)
        api.store.listeners.append(self._notice)

    async def run(self) -> None:
        """Work until cancelled."""
        while True:
            bell = self._api.store.bell()
            if not self._due:
                await bell.wait()
                continue
            await anyio.sleep(_DELAY_SECONDS)
            due, self._due = self._due, set()
            for uid in due:
                node = self._nodes.get(uid)
                if node is not None:
                    self._judge(node)

    def _notice(self, place: str, event: Event) -> None:
        """Keep the graph up to date with one change."""
        if event.type == "DELETED":
            uid = _decode(event.current.body).metadata.uid
            node = self._nodes.pop(uid, None)
            if node is not None:
                for owner in node.meta.ownerReferences:
                    self._dependents.get(owner.uid, set()).discard(uid)
                    self._due.add(owner.uid)
            self._due |= self._dependents.get(uid, set())
        else:
            self._enter(place, event.current)

    def _enter(self, place: str, stored: Stored) -> None:
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
        """Do what an object's owners, or its own deletion, ask for."""
        marks = node.meta.finalizers if node.meta.deletionTimestamp else []
        if ORPHAN in marks:
            for dependent in self._dependents_of(node):
                self._cut(dependent, node.meta.uid)
            self._release(node, ORPHAN)
        elif FOREGROUND in marks:
            self._foreground(node)
        elif node.meta.ownerReferences and not node.meta.deletionTimestamp:
            self._keep_or_delete(node)

    def _keep_or_delete(self, node: _Node) -> None:
        """Delete an object with no living owner; forget the dead ones of an object with some."""
        owners = {one.uid: self._owner(node, one.uid) for one in node.meta.ownerReferences}
        if not any(owners.values()):
            self._delete(node, "Background")
            return
        for uid, owner in owners.items():
            if owner is None:
                self._cut(node, uid)
        if all(owner is None or FOREGROUND in owner.meta.finalizers for owner in owners.values()):
            blocks = any(self._dependents.get(node.meta.uid, ()))
            self._delete(node, "Foreground" if blocks else "Background")

    def _foreground(self, node: _Node) -> None:
        """Delete dependents; let the owner go when none of them blocks it any more."""
        blocking = 0
        for dependent in self._dependents_of(node):
            reference = next(
                one for one in dependent.meta.ownerReferences if one.uid == node.meta.uid
            )
            blocking += reference.blockOwnerDeletion
            if not dependent.meta.deletionTimestamp:
                self._keep_or_delete(dependent)
        if not blocking:
            self._release(node, FOREGROUND)

    def _owner(self, node: _Node, uid: str) -> _Node | None:
        """Return an owner that may own this object: cluster-scoped, or of the same namespace."""
        owner = self._nodes.get(uid)
        if owner is None or owner.meta.namespace not in {"", node.meta.namespace}:
            return None
        return owner

    def _dependents_of(self, node: _Node) -> list[_Node]:
        uids = sorted(self._dependents.get(node.meta.uid, ()))
        return [self._nodes[uid] for uid in uids if uid in self._nodes]

    def _find(self, node: _Node) -> tuple[Resource, Stored] | None:
        """Return an object as it is now, if it is still the same one."""
        stored = self._api.store.table(node.place).get(node.key)
        resource = next((r for r in self._api.registry if r.place == node.place), None)
        if stored is None or resource is None:
            return None
        return (resource, stored) if _decode(stored.body).metadata.uid == node.meta.uid else None

    def _delete(self, node: _Node, policy: str) -> None:
        found = self._find(node)
        if found:
            remove(self._api, *found, {"propagationPolicy": policy})

    def _cut(self, node: _Node, owner: str) -> None:
        """Remove one owner reference."""
        found = self._find(node)
        if not found:
            return
        resource, stored = found
        body = msgspec.json.decode(stored.body)
        meta = body["metadata"]
        kept = [one for one in meta.get("ownerReferences", ()) if one["uid"] != owner]
        if kept:
            meta["ownerReferences"] = kept
        else:
            meta.pop("ownerReferences", None)
        self._api.store.write(resource.place, stored.key, body)

    def _release(self, node: _Node, finalizer: str) -> None:
        """Remove a finalizer; the object goes with its last one."""
        found = self._find(node)
        if not found:
            return
        resource, stored = found
        body = msgspec.json.decode(stored.body)
        meta = body["metadata"]
        kept = [one for one in meta.get("finalizers", ()) if one != finalizer]
        if kept:
            meta["finalizers"] = kept
        else:
            meta.pop("finalizers", None)
        if resource.rules.is_finished(body):
            self._api.store.delete(resource.place, stored.key, body)
        else:
            self._api.store.write(resource.place, stored.key, body)
