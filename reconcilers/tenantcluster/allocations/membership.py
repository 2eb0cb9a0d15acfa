"""Which allocations are a tenant's, and what they are called.

Decided by spec.tenantClusterRef and spec.type through an index, never by labels: those are
written for people and repaired. So is the role: it follows from the name, which cannot be edited.
By the label a growth allocation can only be kept, as an initial one is.
"""

import re
from collections.abc import Iterable
from itertools import chain, count
from typing import Any

from controller.cache import Cache
from controller.meta import Key
from reconcilers.api import names
from reconcilers.api.ipallocation import TENANT_INDEX, IPAllocation, IPAllocationSpec
from reconcilers.api.tenantaddons import DEFAULT_LOAD_BALANCER
from reconcilers.api.tenantcluster import Networking, TenantCluster
from reconcilers.networkpool.owners import noted_uid
from reconcilers.reporting import allocationlabels


def members(allocations: Cache[IPAllocation], tenant: TenantCluster) -> list[IPAllocation]:
    """Return the allocations of this very tenant, oldest first, name as tie-break.

    An allocation stamped with another uid belongs to an earlier cluster of the same name.
    """
    allocations_of_name = allocations.by_index(TENANT_INDEX, str(tenant.metadata.key))
    return sorted((a for a in allocations_of_name if not is_foreign(a, tenant)), key=_by_age)


def balancer_members(
    allocations: Cache[IPAllocation], tenant: TenantCluster
) -> list[IPAllocation]:
    """Return the load-balancer allocations of this very tenant, in the order of `members`."""
    return [a for a in members(allocations, tenant) if a.spec.type == names.TYPE_LOADBALANCER]


def is_foreign(allocation: IPAllocation, tenant: TenantCluster) -> bool:
    """Return whether the allocation was made for an earlier cluster of the same name."""
    stamped = allocation.metadata.annotations.get(names.ANNOTATION_TENANT_UID)
    return bool(stamped) and stamped != tenant.metadata.uid


def _by_age(allocation: IPAllocation) -> tuple[str, str]:
    created = allocation.metadata.creationTimestamp
    return (created.isoformat() if created else "", allocation.metadata.name)


def role(allocation: IPAllocation, tenant: TenantCluster) -> str:
    """Return initial or growth: by name, unless the label keeps a growth allocation as initial.

    Pinned ranges and unrecognised names are initial, so that nothing is shrunk by mistake.
    """
    kept = allocation.metadata.labels.get(names.LABEL_ROLE) == names.ROLE_INITIAL
    grown = _is_growth_name(allocation.metadata.name, tenant)
    if grown and not kept and not allocation.spec.is_pinned:
        return names.ROLE_GROWTH
    return names.ROLE_INITIAL


def _is_growth_name(name: str, tenant: TenantCluster) -> bool:
    """Return whether `name` is one that elastic growth generates: `<base name>-<1 to 9 digits>`.

    The names of the initial allocation are excluded, since their hash may consist of digits only.
    """
    kind = names.TYPE_LOADBALANCER
    _, _, index = name.rpartition("-")
    if name in _canonical(tenant, kind) or not re.fullmatch("[0-9]{1,9}", index):
        return False
    return name in {_growth_name(base(tenant, kind), index) for base in (base_name, hashed_name)}


def _growth_name(base: str, index: str) -> str:
    tail = f"-{index}"
    return names.shorten(base, names.NAME_MAX - len(tail)) + tail


def _canonical(tenant: TenantCluster, kind: str) -> set[str]:
    """Return the names that a tenant's first allocation may have."""
    return {name(tenant, kind) for name in (base_name, hashed_name, own_name)}


def initial(
    allocations: Iterable[IPAllocation], tenant: TenantCluster, kind: str
) -> IPAllocation | None:
    """Return the first allocation of type `kind` that counts as the tenant's own, if any."""
    of_kind = [a for a in allocations if a.spec.type == kind]
    staying = [a for a in of_kind if not a.metadata.terminating]
    if kind == names.TYPE_NODES and staying:
        of_kind = staying  # the others hold their ranges until these have them
    if kind == names.TYPE_LOADBALANCER:
        of_kind = [a for a in of_kind if role(a, tenant) == names.ROLE_INITIAL]
    canonical = _canonical(tenant, kind)
    canonically_named = [a for a in of_kind if a.metadata.name in canonical]
    return next(iter([*canonically_named, *of_kind]), None)


_SUFFIX = {names.TYPE_LOADBALANCER: "lb", names.TYPE_NODES: "nodes"}


def base_name(tenant: TenantCluster, kind: str) -> str:
    """Return the name of the tenant's first allocation of type `kind`."""
    meta = tenant.metadata
    suffix = f"-{_SUFFIX[kind]}"
    return names.shorten(f"{meta.namespace}-{meta.name}", names.NAME_MAX - len(suffix)) + suffix


def hashed_name(tenant: TenantCluster, kind: str) -> str:
    """Return the name for when another tenant's allocation has the plain one.

    Tenants a-b/c and a/b-c would otherwise want the same name.
    """
    return _make_hashed_name(tenant, kind, str(tenant.metadata.key))


def own_name(tenant: TenantCluster, kind: str) -> str:
    """Return the name for when an earlier cluster of this name left the hashed one taken too.

    Its allocation may stay for long, where collection is suspended: that must not stop a new one.
    """
    return _make_hashed_name(tenant, kind, f"{tenant.metadata.key} {tenant.metadata.uid}")


def successor_name(tenant: TenantCluster, deleted: IPAllocation) -> str:
    """Return the name of what takes the place of a deleted allocation, which still has its own."""
    return _make_hashed_name(tenant, deleted.spec.type, deleted.metadata.uid)


def _make_hashed_name(tenant: TenantCluster, kind: str, hashed_value: str) -> str:
    meta = tenant.metadata
    suffix = f"-{_SUFFIX[kind]}-{names.short_hash(hashed_value)}"
    return names.shorten(f"{meta.namespace}-{meta.name}", names.NAME_MAX - len(suffix)) + suffix


def is_generated_name(name: str, tenant: Key) -> bool:
    """Return whether a name may be that of an allocation that we create for a tenant.

    Of two tenants, such as a-b/c and a/b-c, it may be either's.
    """
    base = f"{tenant.namespace}-{tenant.name}"
    for suffix in _SUFFIX.values():
        stem = f"{base}-{suffix}"
        if name == stem or name.startswith(f"{stem}-"):
            return True
        # The hash of a base that is too long for a name stands between its beginning and the type.
        if f"-{names.short_hash(base)}-{suffix}" in name:
            return True
    return False


def free_name(
    tenant: TenantCluster, kind: str, taken_by: Cache[IPAllocation], namespace: str
) -> str:
    """Return the name under which the tenant's first allocation of type `kind` is created.

    A hashed one if the plain one is taken: by another tenant's allocation, by one of an earlier
    cluster of this name, which a new one never adopts, or by one that cannot be read.
    """
    first = [make(tenant, kind) for make in (base_name, hashed_name, own_name)]
    own = f"{tenant.metadata.key} {tenant.metadata.uid}"
    more = (_make_hashed_name(tenant, kind, f"{own} {number}") for number in count(1))
    free = (
        name
        for name in chain(first, more)
        if _is_usable(tenant, kind, taken_by=taken_by, namespace=namespace, name=name)
    )
    return next(free)


def _is_usable(
    tenant: TenantCluster, kind: str, taken_by: Cache[IPAllocation], namespace: str, name: str
) -> bool:
    """Return whether a name is free, or that of the allocation that is looked for."""
    key = Key(namespace, name)
    holder = taken_by.get(key)
    if holder is None:
        return key not in taken_by.unreadable
    return _is_own(holder, tenant, kind)


def free_growth_name(tenant: TenantCluster, taken_by: Cache[IPAllocation], namespace: str) -> str:
    """Return the name of the tenant's next growth allocation: that of the lowest free index.

    An index that another tenant's allocation has taken is used with the hashed name. A number
    that counts allocations would collide as soon as one in the middle has gone.
    """
    bases = [name(tenant, names.TYPE_LOADBALANCER) for name in (base_name, hashed_name)]
    for index in count(1):
        for base in bases:
            name = _growth_name(base, str(index))
            key = Key(namespace, name)
            holder = taken_by.get(key)
            if holder is None and key not in taken_by.unreadable:
                return name
            if holder is not None and _is_own(holder, tenant, names.TYPE_LOADBALANCER):
                break
    raise AssertionError("unreachable: the count of names does not end")


def _is_own(allocation: IPAllocation, tenant: TenantCluster, kind: str) -> bool:
    holder = (allocation.spec.tenantClusterRef.key, allocation.spec.type)
    return holder == (tenant.metadata.key, kind) and not is_foreign(allocation, tenant)


def repairs(allocation: IPAllocation, tenant: TenantCluster, uid: str = "") -> dict[str, Any]:
    """Return the merge patch that repairs an allocation's metadata; empty if nothing is wrong.

    Labels follow reconcilers/reporting/allocationlabels.py, the role's among them.

    Args:
        allocation: as it is.
        uid: of the tenant, by a live read, to be noted where none is; empty to note none.
    """
    meta = allocation.metadata
    if allocation.spec.type == names.TYPE_LOADBALANCER:
        wanted_role = role(allocation, tenant)
    else:
        wanted_role = meta.labels.get(names.LABEL_ROLE) or names.ROLE_INITIAL
    wrong = allocationlabels.find_label_repairs(allocation, wanted_role)
    change: dict[str, Any] = {"labels": wrong} if wrong else {}
    notes: dict[str, Any] = {}
    if uid and not noted_uid(allocation):
        notes[names.ANNOTATION_TENANT_UID] = uid
    if notes:
        change["annotations"] = notes
    return {"metadata": change} if change else {}


def _provider_note(kind: str, tenant: TenantCluster) -> str | None:
    """Return the provider that is noted on a new allocation; None to note none.

    No note stands for the default. What is noted later changes with a proof alone: see
    release/providerchange.py.
    """
    provider = tenant.load_balancer_provider
    if kind != names.TYPE_LOADBALANCER or provider == DEFAULT_LOAD_BALANCER:
        return None
    return provider


def asked_families(spec: IPAllocationSpec | Networking) -> dict[str, Any]:
    """Return the fields about families for the spec of a new allocation."""
    fields: dict[str, Any] = {}
    if spec.ipFamilyPolicy is not None:
        fields["ipFamilyPolicy"] = spec.ipFamilyPolicy
    if spec.ipFamilies:
        fields["ipFamilies"] = list(spec.ipFamilies)
    return fields


def request(
    tenant: TenantCluster,
    kind: str,
    name: str,
    pool: str,
    size: int,
    role_name: str = names.ROLE_INITIAL,
) -> dict[str, Any]:
    """Return the body of a new allocation, finalizer included, so that it need not be added."""
    notes = {names.ANNOTATION_TENANT_UID: tenant.metadata.uid}
    if provider := _provider_note(kind, tenant):
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
            "tenantClusterRef": tenant.reference(),
            "type": kind,
            "count": size,
            **asked_families(tenant.networking),
        },
    }
