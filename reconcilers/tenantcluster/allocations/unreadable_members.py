"""Which unreadable IPAllocations are a tenant's, or may be.

An allocation that does not match its model still holds its range, and the tenant may use it. So
while an allocation is unreadable, nothing is changed for its tenant. The first of these that is
known decides whose allocation it is:

1. spec.tenantClusterRef
2. the last version that could be read, which the cache keeps
3. the labels
4. the name, if it is one that we generate

A *failure* is the text that says why an object could not be decoded. It may carry the parts of the
object that could be decoded.
"""

from collections.abc import Mapping

from controller.cache import Cache
from controller.codec import DecodeFailure
from controller.meta import Key, ObjectMeta
from reconcilers.api import names
from reconcilers.api.ipallocation import TENANT_INDEX, IPAllocation, TenantReference
from reconcilers.api.resources import IP_ALLOCATION, AllocationOutline
from reconcilers.promises.unreadable import UnreadableObject, is_terminating, read_outline
from reconcilers.tenantcluster.allocations.membership import is_generated_name


def list_unreadable_members(
    allocations: Cache[IPAllocation], tenant: Key, uid: str = ""
) -> tuple[UnreadableObject, ...]:
    """Return the unreadable allocations that may be a tenant's, sorted.

    Args:
        allocations: all allocations, indexed by TenantCluster.
        tenant: namespace and name of the TenantCluster.
        uid: of the TenantCluster: allocations of earlier clusters of that name are left out; empty
            to include the allocations of all clusters of that name.
    """
    unreadable = allocations.unreadable
    if not unreadable:
        return ()
    index, value = TENANT_INDEX, str(tenant)
    # By the reference, where it can be read.
    keys = set(unreadable.list_by_index(index, value))
    # An allocation whose reference cannot be read is not in the index: check each of them.
    keys.update(
        key
        for key in unreadable.list_unplaced(index)
        if _may_be_without_reference(allocations, key, tenant)
    )
    # By the last version that could be read: the reference may have been edited since.
    keys.update(
        allocation.metadata.key
        for allocation in allocations.list_by_index(index, value)
        if allocation.metadata.key in unreadable
    )
    return make_unreadable_objects({key: unreadable[key] for key in keys}, uid)


def select_unreadable_members(
    unreadable: Mapping[Key, str], tenant: Key, uid: str
) -> tuple[UnreadableObject, ...]:
    """Select the unreadable allocations of a LIST that may be a tenant's, sorted.

    Unlike a cache, a LIST has no earlier version of an allocation, so step 2 of the module
    docstring is left out.

    Args:
        unreadable: the failures, by key of the allocation.
        tenant: namespace and name of the TenantCluster.
        uid: of the TenantCluster: allocations of earlier clusters of that name are left out.
    """
    possible_members = {
        key: failure for key, failure in unreadable.items() if _may_be_of(key, failure, tenant)
    }
    return make_unreadable_objects(possible_members, uid)


def make_unreadable_objects(
    unreadable: Mapping[Key, str], uid: str = ""
) -> tuple[UnreadableObject, ...]:
    """Return unreadable allocations in the form that messages use, sorted.

    Args:
        unreadable: the failures, by key of the allocation.
        uid: leave out allocations that note another uid of their TenantCluster; empty to leave
            out none. An allocation without a readable note stays: it may be this cluster's.
    """
    return tuple(
        sorted(
            UnreadableObject(IP_ALLOCATION.kind, key, is_terminating(failure))
            for key, failure in unreadable.items()
            if not uid or _read_uid_note(failure) in {"", uid}
        )
    )


class UnreadableOwners:
    """The TenantClusters to reconcile when an allocation becomes unreadable or readable, or goes.

    Args:
        allocations: all allocations.
    """

    def __init__(self, allocations: Cache[IPAllocation]) -> None:
        self._allocations = allocations
        self._last_owners: dict[Key, Key] = {}
        """The TenantCluster of each unreadable allocation, by the allocation's key."""

    def list_to_reconcile(self, allocation: Key) -> list[Key]:
        """Return the TenantClusters of an allocation that is unreadable, or was until now.

        These are its owner at the last call and its owner now, without repetition. The list is
        empty if no owner is known. Then a later pass of the cluster notices the change.
        """
        owner = self._find_owner(allocation)
        last_owner = self._last_owners.pop(allocation, None)
        if owner is not None and allocation in self._allocations.unreadable:
            self._last_owners[allocation] = owner
        return list(dict.fromkeys(key for key in (last_owner, owner) if key is not None))

    def _find_owner(self, allocation: Key) -> Key | None:
        """Return the TenantCluster of an unreadable allocation; None if it is not known.

        Reference, last readable version and labels are tried in the order of the module docstring.
        The name is not used: it may fit several clusters.
        """
        failure = self._allocations.unreadable.get(allocation)
        if failure is None:
            return None  # it is readable or gone; its last owner is remembered
        reference = _read_reference(failure)
        if reference is not None:
            return reference.key
        last_readable = self._allocations.get(allocation)
        if last_readable is not None:
            return last_readable.spec.tenantClusterRef.key
        labels = _read_labels(failure)
        if names.LABEL_TEAM in labels and names.LABEL_TENANT in labels:
            return Key(labels[names.LABEL_TEAM], labels[names.LABEL_TENANT])
        return None


def _may_be_without_reference(allocations: Cache[IPAllocation], key: Key, tenant: Key) -> bool:
    """Return whether an unreadable allocation whose reference is unknown may be the tenant's."""
    last_readable = allocations.get(key)
    if last_readable is not None:
        return last_readable.spec.tenantClusterRef.key == tenant
    return _may_be_of(key, allocations.unreadable[key], tenant)


def _may_be_of(key: Key, failure: str, tenant: Key) -> bool:
    """Return whether an unreadable allocation may be the tenant's.

    Its reference decides; without a readable reference the labels; without these its name.
    """
    reference = _read_reference(failure)
    if reference is not None:
        return reference.key == tenant
    labels = _read_labels(failure)
    if names.LABEL_TEAM in labels and names.LABEL_TENANT in labels:
        # `make_label_value` shortens: a label has at most 63 characters, a namespace or name more.
        labelled = (labels[names.LABEL_TEAM], labels[names.LABEL_TENANT])
        return labelled == tuple(map(names.make_label_value, tenant))
    return is_generated_name(key.name, tenant)


def _read_reference(failure: str) -> TenantReference | None:
    """Return the allocation's reference to its TenantCluster; None if it cannot be decoded."""
    outline = read_outline(failure)
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
