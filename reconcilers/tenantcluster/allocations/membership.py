"""Which allocations are a tenant's, and what they are called.

spec.tenantClusterRef and spec.type decide, through an index. Labels do not: they are written for
people, and repaired. The role follows from the name, because a name cannot be edited. A person can
set the role label of a growth allocation to `initial`, so that shrink never takes its range; the
label has no other effect.

The *canonical* names are those that a tenant's first allocation of a type may have. `kind` is the
type of an allocation: nodes or loadbalancer. *Growth* adds allocations for Services that wait.
"""

import re
from collections.abc import Iterable
from itertools import chain, count
from operator import attrgetter
from typing import Any

from controller.cache import Cache
from controller.meta import Key
from reconcilers.api import names
from reconcilers.api.ipallocation import TENANT_INDEX, IPAllocation, IPAllocationSpec
from reconcilers.api.tenantaddons import DEFAULT_LOAD_BALANCER
from reconcilers.api.tenantcluster import Networking, TenantCluster
from reconcilers.networkpool.owners import read_noted_uid
from reconcilers.reporting import allocationlabels


def list_members(allocations: Cache[IPAllocation], tenant: TenantCluster) -> list[IPAllocation]:
    """Return the allocations of this tenant, oldest first; those of the same second by name.

    An allocation that notes another uid is left out: it belongs to an earlier cluster of the same
    name.
    """
    allocations_of_name = allocations.list_by_index(TENANT_INDEX, str(tenant.metadata.key))
    return sorted(
        (a for a in allocations_of_name if not is_foreign(a, tenant)),
        key=attrgetter("creation_order"),
    )


def list_balancer_members(
    allocations: Cache[IPAllocation], tenant: TenantCluster
) -> list[IPAllocation]:
    """Return the load-balancer allocations of this tenant, in the order of `list_members`."""
    return [a for a in list_members(allocations, tenant) if a.spec.type == names.TYPE_LOADBALANCER]


def is_foreign(allocation: IPAllocation, tenant: TenantCluster) -> bool:
    """Return whether the allocation was made for an earlier cluster of the same name.

    An allocation without a noted uid is not foreign: a person may have created it.
    """
    noted_tenant_uid = allocation.metadata.annotations.get(names.ANNOTATION_TENANT_UID)
    return bool(noted_tenant_uid) and noted_tenant_uid != tenant.metadata.uid


def find_role(allocation: IPAllocation, tenant: TenantCluster) -> str:
    """Return the role of a load-balancer allocation: growth or initial.

    Growth needs a name that growth generates, a range that is not pinned, and no label that says
    initial. Everything else is initial, so that shrink takes nothing by mistake.
    """
    is_kept_by_label = allocation.metadata.labels.get(names.LABEL_ROLE) == names.ROLE_INITIAL
    has_growth_name = _is_growth_name(allocation.metadata.name, tenant)
    if has_growth_name and not is_kept_by_label and not allocation.spec.is_pinned:
        return names.ROLE_GROWTH
    return names.ROLE_INITIAL


def _is_growth_name(name: str, tenant: TenantCluster) -> bool:
    """Return whether `name` is one that elastic growth generates: `<base name>-<1 to 9 digits>`.

    The names of the initial allocation are excluded, since their hash may consist of digits only.
    """
    kind = names.TYPE_LOADBALANCER
    _, _, index = name.rpartition("-")
    if name in _list_canonical_names(tenant, kind) or not re.fullmatch("[0-9]{1,9}", index):
        return False
    bases = (make_base_name(tenant, kind), make_hashed_name(tenant, kind))
    return name in {_make_growth_name(base, index) for base in bases}


def _make_growth_name(base: str, index: str) -> str:
    """Return `<base>-<index>`, with the base shortened if the name would be too long."""
    suffix = f"-{index}"
    return names.shorten(base, names.NAME_MAX - len(suffix)) + suffix


def _list_canonical_names(tenant: TenantCluster, kind: str) -> set[str]:
    """Return the names that a tenant's first allocation of type `kind` may have."""
    return {
        make_name(tenant, kind) for make_name in (make_base_name, make_hashed_name, make_own_name)
    }


def find_initial(
    allocations: Iterable[IPAllocation], tenant: TenantCluster, kind: str
) -> IPAllocation | None:
    """Return the allocation that serves as the tenant's initial one of type `kind`; else None.

    An allocation with a canonical name precedes one that a person created under another name. A
    growth allocation never serves as the initial one.

    Args:
        allocations: the tenant's allocations, in the order of `list_members`.
    """
    candidates = [a for a in allocations if a.spec.type == kind]
    staying = [a for a in candidates if not a.metadata.is_terminating]
    if kind == names.TYPE_NODES and staying:
        # A deleted allocation of nodes keeps its range only until its successor has the range.
        candidates = staying
    if kind == names.TYPE_LOADBALANCER:
        candidates = [a for a in candidates if find_role(a, tenant) == names.ROLE_INITIAL]
    canonical_names = _list_canonical_names(tenant, kind)
    canonically_named = [a for a in candidates if a.metadata.name in canonical_names]
    return next(iter([*canonically_named, *candidates]), None)


_SUFFIX = {names.TYPE_LOADBALANCER: "lb", names.TYPE_NODES: "nodes"}


def make_base_name(tenant: TenantCluster, kind: str) -> str:
    """Return the plain name of the tenant's first allocation: `<namespace>-<name>-lb`, say."""
    meta = tenant.metadata
    suffix = f"-{_SUFFIX[kind]}"
    return names.shorten(f"{meta.namespace}-{meta.name}", names.NAME_MAX - len(suffix)) + suffix


def make_hashed_name(tenant: TenantCluster, kind: str) -> str:
    """Return the name with a hash of the tenant's key, for use if the plain name is taken.

    Tenants a-b/c and a/b-c have the same plain name.
    """
    return _append_type_and_hash(tenant, kind, str(tenant.metadata.key))


def make_own_name(tenant: TenantCluster, kind: str) -> str:
    """Return the name with a hash of the tenant's uid, for use if the hashed name is taken, too.

    An earlier cluster of this name may have left its allocation, which stays for long while the
    orphan collector is suspended. It must not stop the new cluster.
    """
    return _append_type_and_hash(tenant, kind, f"{tenant.metadata.key} {tenant.metadata.uid}")


def make_successor_name(tenant: TenantCluster, deleted: IPAllocation) -> str:
    """Return the name of the allocation that replaces a deleted one, which still has its name."""
    return _append_type_and_hash(tenant, deleted.spec.type, deleted.metadata.uid)


def _append_type_and_hash(tenant: TenantCluster, kind: str, hashed_value: str) -> str:
    """Return a name that ends in the type and a hash: `<namespace>-<name>-lb-<hash>`, say.

    Args:
        hashed_value: the text whose hash distinguishes the name from others.
    """
    meta = tenant.metadata
    suffix = f"-{_SUFFIX[kind]}-{names.compute_short_hash(hashed_value)}"
    return names.shorten(f"{meta.namespace}-{meta.name}", names.NAME_MAX - len(suffix)) + suffix


def is_generated_name(name: str, tenant: Key) -> bool:
    """Return whether an allocation that we create for a tenant may have this name.

    A name does not tell tenants such as a-b/c and a/b-c apart: then it is True for both.
    """
    base = f"{tenant.namespace}-{tenant.name}"
    for suffix in _SUFFIX.values():
        stem = f"{base}-{suffix}"
        if name == stem or name.startswith(f"{stem}-"):
            return True
        # A base that is too long for a name is shortened, and its hash stands before the type.
        if f"-{names.compute_short_hash(base)}-{suffix}" in name:
            return True
    return False


def find_free_name(
    tenant: TenantCluster, kind: str, allocations: Cache[IPAllocation], namespace: str
) -> str:
    """Return the name under which the tenant's first allocation of type `kind` is created.

    It is the first usable one of: the plain name, the hashed name, the name with the uid, and then
    names with the uid and a number. A name is not usable if another tenant's allocation has it, or
    an unreadable allocation, or one of an earlier cluster of this name: it is never adopted.

    Args:
        allocations: the allocations of all tenants.
        namespace: the namespace in which the allocation is created.
    """
    canonical_names = [
        make_name(tenant, kind) for make_name in (make_base_name, make_hashed_name, make_own_name)
    ]
    identity = f"{tenant.metadata.key} {tenant.metadata.uid}"
    numbered_names = (
        _append_type_and_hash(tenant, kind, f"{identity} {number}") for number in count(1)
    )
    usable_names = (
        name
        for name in chain(canonical_names, numbered_names)
        if _is_usable(tenant, kind, allocations=allocations, namespace=namespace, name=name)
    )
    return next(usable_names)


def _is_usable(
    tenant: TenantCluster, kind: str, allocations: Cache[IPAllocation], namespace: str, name: str
) -> bool:
    """Return whether the tenant's allocation may be created under this name.

    True if the name is free, or if the tenant's own allocation has it. In that case the create
    fails, and the next pass finds that allocation.
    """
    key = Key(namespace, name)
    holder = allocations.get(key)
    if holder is None:
        return key not in allocations.unreadable
    return _is_own(holder, tenant, kind)


def find_free_growth_name(
    tenant: TenantCluster, allocations: Cache[IPAllocation], namespace: str
) -> str:
    """Return the name of the tenant's next growth allocation: the one with the lowest free index.

    If another tenant's allocation has the plain name with an index, the hashed name is used with
    that index. The number of growth allocations does not serve as the index: after an allocation
    with a lower index is released, the next name would be taken.

    Args:
        allocations: the allocations of all tenants.
        namespace: the namespace in which the allocation is created.
    """
    kind = names.TYPE_LOADBALANCER
    bases = [make_base_name(tenant, kind), make_hashed_name(tenant, kind)]
    for index in count(1):
        for base in bases:
            name = _make_growth_name(base, str(index))
            key = Key(namespace, name)
            holder = allocations.get(key)
            if holder is None and key not in allocations.unreadable:
                return name
            if holder is not None and _is_own(holder, tenant, kind):
                break  # this tenant has used the index: try the next one
    raise AssertionError("unreachable: the count of names does not end")


def _is_own(allocation: IPAllocation, tenant: TenantCluster, kind: str) -> bool:
    """Return whether an allocation of type `kind` is this tenant's, by reference and noted uid."""
    owner_and_type = (allocation.spec.tenantClusterRef.key, allocation.spec.type)
    return owner_and_type == (tenant.metadata.key, kind) and not is_foreign(allocation, tenant)


def make_repair_patch(
    allocation: IPAllocation, tenant: TenantCluster, uid: str = ""
) -> dict[str, Any]:
    """Return the merge patch that repairs an allocation's metadata; empty if nothing is wrong.

    `allocationlabels` has the rules of the labels.

    Args:
        uid: the tenant's uid by a live read, to be noted if the allocation notes none; empty to
            note none.
    """
    meta = allocation.metadata
    if allocation.spec.type == names.TYPE_LOADBALANCER:
        expected_role = find_role(allocation, tenant)
    else:
        # Nodes never grow, so any role that a person wrote there has no effect, and stays.
        expected_role = meta.labels.get(names.LABEL_ROLE) or names.ROLE_INITIAL
    repaired_labels = allocationlabels.find_label_repairs(allocation, expected_role)
    change: dict[str, Any] = {}
    if repaired_labels:
        change["labels"] = repaired_labels
    if uid and not read_noted_uid(allocation):
        change["annotations"] = {names.ANNOTATION_TENANT_UID: uid}
    return {"metadata": change} if change else {}


def _choose_provider_note(kind: str, tenant: TenantCluster) -> str | None:
    """Return the load balancer to note on a new allocation; None to note none.

    An allocation without a note belongs to the default load balancer. The note of an existing
    allocation changes only in release/providerchange.py, after the old one released the range.
    """
    provider = tenant.load_balancer_provider
    if kind != names.TYPE_LOADBALANCER or provider == DEFAULT_LOAD_BALANCER:
        return None
    return provider


def build_family_fields(spec: IPAllocationSpec | Networking) -> dict[str, Any]:
    """Return the fields about IP families for the spec of a new allocation, as in `spec`."""
    fields: dict[str, Any] = {}
    if spec.ipFamilyPolicy is not None:
        fields["ipFamilyPolicy"] = spec.ipFamilyPolicy
    if spec.ipFamilies:
        fields["ipFamilies"] = list(spec.ipFamilies)
    return fields


def build_request(
    tenant: TenantCluster,
    kind: str,
    name: str,
    pool: str,
    size: int,
    role_name: str = names.ROLE_INITIAL,
) -> dict[str, Any]:
    """Return the body of a new allocation.

    It has our finalizer from the start, so that no second write adds it, and no deletion precedes
    it.

    Args:
        kind: nodes or loadbalancer.
        pool: the name of the NetworkPool.
        size: how many addresses.
        role_name: initial or growth.
    """
    notes = {names.ANNOTATION_TENANT_UID: tenant.metadata.uid}
    if provider := _choose_provider_note(kind, tenant):
        notes[names.ANNOTATION_LOAD_BALANCER] = provider
    return {
        "metadata": {
            "name": name,
            "labels": allocationlabels.build_labels(tenant.metadata.key, pool, kind)
            | {names.LABEL_ROLE: role_name, names.LABEL_MANAGED_BY: names.MANAGED_BY},
            "annotations": notes,
            "finalizers": [names.FINALIZER_ALLOCATION],
        },
        "spec": {
            "poolRef": {"name": pool},
            "tenantClusterRef": tenant.build_reference(),
            "type": kind,
            "count": size,
            **build_family_fields(tenant.networking),
        },
    }
