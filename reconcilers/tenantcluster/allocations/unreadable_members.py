"""Which unreadable IPAllocations are a tenant's, or may be.

An allocation that does not match its model still holds its range, and the tenant may use it. So
while one is unreadable nothing is changed for its tenant. Whose it is, is decided by the first of
these that is known: spec.tenantClusterRef, the last version that could be read, the labels, the
name.
"""

from collections.abc import Mapping

from controller.cache import Cache
from controller.codec import DecodeFailure
from controller.meta import Key, ObjectMeta
from reconcilers.api import names
from reconcilers.api.ipallocation import TENANT_INDEX, IPAllocation, TenantReference
from reconcilers.api.resources import IP_ALLOCATION, AllocationOutline
from reconcilers.promises.unreadable import UnreadableObject, is_terminating, outline_of
from reconcilers.tenantcluster.allocations.membership import is_generated_name


def unreadable_members(
    allocations: Cache[IPAllocation], tenant: Key, uid: str = ""
) -> tuple[UnreadableObject, ...]:
    """Return the unreadable allocations that may be a tenant's, sorted.

    Args:
        allocations: all allocations, indexed by TenantCluster.
        tenant: namespace and name of the TenantCluster.
        uid: of the TenantCluster: allocations of earlier clusters of that name are left out; empty
            for those of all clusters of the name.
    """
    unreadable = allocations.unreadable
    if not unreadable:
        return ()
    index, value = TENANT_INDEX, str(tenant)
    keys = set(unreadable.by_index(index, value))
    keys.update(
        key for key in unreadable.list_unplaced(index) if _is_named(allocations, key, tenant)
    )
    keys.update(
        allocation.metadata.key
        for allocation in allocations.by_index(index, value)
        if allocation.metadata.key in unreadable
    )
    return unreadable_objects({key: unreadable[key] for key in keys}, uid)


def unreadable_in_list(
    unreadable: Mapping[Key, str], tenant: Key, uid: str
) -> tuple[UnreadableObject, ...]:
    """Return the unreadable allocations of a LIST that may be a tenant's, sorted.

    Args:
        unreadable: the allocations that cannot be decoded, with the reason.
        tenant: namespace and name of the TenantCluster.
        uid: as for `unreadable_members`.
    """
    possible_members = {k: why for k, why in unreadable.items() if _may_be_of(k, why, tenant)}
    return unreadable_objects(possible_members, uid)


def unreadable_objects(
    unreadable: Mapping[Key, str], uid: str = ""
) -> tuple[UnreadableObject, ...]:
    """Return unreadable allocations as messages name them, sorted.

    Args:
        unreadable: the reasons, by key.
        uid: leave out those for a TenantCluster of another uid; empty to leave out none.
    """
    return tuple(
        sorted(
            UnreadableObject(IP_ALLOCATION.kind, key, is_terminating(why))
            for key, why in unreadable.items()
            if not uid or _read_uid_note(why) in {"", uid}
        )
    )


class UnreadableOwners:
    """The TenantClusters to reconcile when an allocation becomes unreadable, readable or is gone.

    Args:
        allocations: all allocations.
    """

    def __init__(self, allocations: Cache[IPAllocation]) -> None:
        self._allocations = allocations
        self._last: dict[Key, Key] = {}

    def of(self, allocation: Key) -> list[Key]:
        """Return the TenantCluster of an allocation that is, or was until now, unreadable.

        An allocation that does not say whose it is has none; then the retry of the cluster's pass
        notices that the allocation is gone.
        """
        owner = self._find_owner(allocation)
        before = self._last.pop(allocation, None)
        if owner is not None and allocation in self._allocations.unreadable:
            self._last[allocation] = owner
        return list(dict.fromkeys(key for key in (before, owner) if key is not None))

    def _find_owner(self, allocation: Key) -> Key | None:
        """Return the TenantCluster of an unreadable allocation; None if it is not known."""
        failure = self._allocations.unreadable.get(allocation)
        if failure is None:
            return None
        reference = _read_reference(failure)
        if reference is not None:
            return reference.key
        older = self._allocations.get(allocation)
        if older is not None:
            return older.spec.tenantClusterRef.key
        labels = _read_labels(failure)
        if names.LABEL_TEAM in labels and names.LABEL_TENANT in labels:
            return Key(labels[names.LABEL_TEAM], labels[names.LABEL_TENANT])
        return None


def _is_named(allocations: Cache[IPAllocation], key: Key, tenant: Key) -> bool:
    """Return whether an unreadable allocation whose reference is unknown may be the tenant's."""
    older = allocations.get(key)
    if older is not None:
        return older.spec.tenantClusterRef.key == tenant
    return _may_be_of(key, allocations.unreadable[key], tenant)


def _may_be_of(key: Key, failure: str, tenant: Key) -> bool:
    """Return whether an allocation is the tenant's by its reference, else its labels or name."""
    reference = _read_reference(failure)
    if reference is not None:
        return reference.key == tenant
    labels = _read_labels(failure)
    if names.LABEL_TEAM in labels and names.LABEL_TENANT in labels:
        labelled = (labels[names.LABEL_TEAM], labels[names.LABEL_TENANT])
        return labelled == tuple(map(names.label_value, tenant))
    return is_generated_name(key.name, tenant)


def _read_reference(failure: str) -> TenantReference | None:
    """Return the allocation's reference to its TenantCluster; None if it cannot be decoded."""
    outline = outline_of(failure)
    if not isinstance(outline, AllocationOutline):
        return None
    reference: TenantReference | None = outline.spec.tenantClusterRef
    return reference


def _read_metadata(failure: str) -> ObjectMeta | None:
    """Return the metadata of an allocation; None if they cannot be decoded."""
    return failure.metadata if isinstance(failure, DecodeFailure) else None


def _read_labels(failure: str) -> Mapping[str, str]:
    """Return the labels of an allocation; empty if they cannot be decoded."""
    metadata = _read_metadata(failure)
    return metadata.labels if metadata is not None else {}


def _read_uid_note(failure: str) -> str:
    """Return the uid of the TenantCluster that an allocation notes; empty for none."""
    metadata = _read_metadata(failure)
    annotations = metadata.annotations if metadata is not None else {}
    return annotations.get(names.ANNOTATION_TENANT_UID, "")
