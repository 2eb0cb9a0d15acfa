"""Which allocations are a tenant's, and what they are called.

Decided by spec.tenantClusterRef and spec.type through an index, never by labels: those are
written for people and repaired, the role label excepted, whose absence is read by migration rule.
"""

import re
from collections.abc import Iterable
from itertools import count
from typing import Any

from controller.cache import Cache
from controller.meta import Key
from reconcilers import labels
from reconcilers.api import names
from reconcilers.api.ipallocation import TENANT_INDEX, IPAllocation
from reconcilers.api.tenantcluster import TenantCluster


def members(allocations: Cache[IPAllocation], tenant: TenantCluster) -> list[IPAllocation]:
    """Return the allocations of this very tenant, oldest first, name as tie-break.

    An allocation stamped with another uid belongs to an earlier cluster of the same name.
    """
    found = allocations.by_index(TENANT_INDEX, str(tenant.metadata.key))
    return sorted((a for a in found if not is_foreign(a, tenant)), key=_by_age)


def is_foreign(allocation: IPAllocation, tenant: TenantCluster) -> bool:
    """Return whether the allocation was made for an earlier cluster of the same name."""
    stamped = allocation.metadata.annotations.get(names.ANNOTATION_TENANT_UID)
    return bool(stamped) and stamped != tenant.metadata.uid


def _by_age(allocation: IPAllocation) -> tuple[str, str]:
    created = allocation.metadata.creationTimestamp
    return (created.isoformat() if created else "", allocation.metadata.name)


def role(allocation: IPAllocation, tenant: TenantCluster) -> str:
    """Return initial or growth: by label, and where that is missing, by name.

    Pinned ranges and unrecognised names are initial, so that nothing is shrunk by mistake.
    """
    labelled = allocation.metadata.labels.get(names.LABEL_ROLE)
    if labelled in {names.ROLE_INITIAL, names.ROLE_GROWTH}:
        return labelled
    base = re.escape(base_name(tenant, names.TYPE_LOADBALANCER))
    numbered = re.fullmatch(rf"{base}-\d+", allocation.metadata.name)
    grown = numbered is not None and allocation.spec.pinnedRange is None
    return names.ROLE_GROWTH if grown else names.ROLE_INITIAL


def initial(
    found: Iterable[IPAllocation], tenant: TenantCluster, kind: str
) -> IPAllocation | None:
    """Return the first allocation of type `kind` that counts as the tenant's own, if any."""
    of_kind = [a for a in found if a.spec.type == kind]
    staying = [a for a in of_kind if not a.metadata.terminating]
    if kind == names.TYPE_NODES and staying:
        of_kind = staying  # the others hold their ranges until these have them
    if kind == names.TYPE_LOADBALANCER:
        of_kind = [a for a in of_kind if role(a, tenant) == names.ROLE_INITIAL]
    canonical = {name(tenant, kind) for name in (base_name, hashed_name, own_name)}
    named = [a for a in of_kind if a.metadata.name in canonical]
    return next(iter([*named, *of_kind]), None)


_SUFFIX = {names.TYPE_LOADBALANCER: "lb", names.TYPE_NODES: "nodes"}


def base_name(tenant: TenantCluster, kind: str) -> str:
    """Return the name of the tenant's first allocation of type `kind`."""
    meta = tenant.metadata
    suffix = f"-{_SUFFIX[kind]}"
    return names.shortened(f"{meta.namespace}-{meta.name}", names.NAME_MAX - len(suffix)) + suffix


def hashed_name(tenant: TenantCluster, kind: str) -> str:
    """Return the name for when another tenant's allocation has the plain one.

    Tenants a-b/c and a/b-c would otherwise want the same name.
    """
    return _hashed(tenant, kind, str(tenant.metadata.key))


def own_name(tenant: TenantCluster, kind: str) -> str:
    """Return the name for when an earlier cluster of this name left the hashed one taken too.

    Its allocation may stay for long, where collection is suspended: that must not stop a new one.
    """
    return _hashed(tenant, kind, f"{tenant.metadata.key} {tenant.metadata.uid}")


def successor_name(tenant: TenantCluster, deleted: IPAllocation) -> str:
    """Return the name of what takes the place of a deleted allocation, which still has its own."""
    return _hashed(tenant, deleted.spec.type, deleted.metadata.uid)


def _hashed(tenant: TenantCluster, kind: str, what: str) -> str:
    meta = tenant.metadata
    suffix = f"-{_SUFFIX[kind]}-{names.short_hash(what)}"
    return names.shortened(f"{meta.namespace}-{meta.name}", names.NAME_MAX - len(suffix)) + suffix


def free_name(
    tenant: TenantCluster, kind: str, taken_by: Cache[IPAllocation], namespace: str
) -> str:
    """Return the name under which the tenant's first allocation of type `kind` is created.

    A hashed one if the plain one is taken: by another tenant's allocation, or by one of an
    earlier cluster of this name, which a new one never adopts.
    """
    for name in (base_name(tenant, kind), hashed_name(tenant, kind)):
        holder = taken_by.get(Key(namespace, name))
        if holder is None or _is_own(holder, tenant, kind):
            return name
    return own_name(tenant, kind)


def free_growth_name(tenant: TenantCluster, taken_by: Cache[IPAllocation], namespace: str) -> str:
    """Return the name of the tenant's next growth allocation: that of the lowest free index.

    An index that another tenant's allocation has taken is used with the hashed name. A number
    that counts allocations would collide as soon as one in the middle has gone.
    """
    bases = [name(tenant, names.TYPE_LOADBALANCER) for name in (base_name, hashed_name)]
    for index in count(1):
        for base in bases:
            tail = f"-{index}"
            name = names.shortened(base, names.NAME_MAX - len(tail)) + tail
            holder = taken_by.get(Key(namespace, name))
            if holder is None:
                return name
            if _is_own(holder, tenant, names.TYPE_LOADBALANCER):
                break
    raise AssertionError("unreachable: the count of names does not end")


def _is_own(allocation: IPAllocation, tenant: TenantCluster, kind: str) -> bool:
    served = (allocation.spec.tenantClusterRef.key, allocation.spec.type)
    return served == (tenant.metadata.key, kind) and not is_foreign(allocation, tenant)


def repairs(allocation: IPAllocation, tenant: TenantCluster) -> dict[str, Any]:
    """Return the merge patch that repairs an allocation's metadata; empty if nothing is wrong.

    Labels follow reconcilers/labels.py. A missing role is inferred, once, and then stays. The
    tenant's uid is noted where none is.
    """
    meta = allocation.metadata
    if allocation.spec.type == names.TYPE_LOADBALANCER:
        wanted_role = role(allocation, tenant)
    else:
        wanted_role = meta.labels.get(names.LABEL_ROLE) or names.ROLE_INITIAL
    wrong = labels.repairs(allocation, wanted_role)
    change: dict[str, Any] = {"labels": wrong} if wrong else {}
    if not meta.annotations.get(names.ANNOTATION_TENANT_UID):
        change["annotations"] = {names.ANNOTATION_TENANT_UID: tenant.metadata.uid}
    return {"metadata": change} if change else {}


def request(
    tenant: TenantCluster,
    kind: str,
    name: str,
    pool: str,
    size: int,
    role_name: str = names.ROLE_INITIAL,
) -> dict[str, Any]:
    """Return the body of a new allocation, finalizer included, so that it need not be added."""
    return {
        "metadata": {
            "name": name,
            "labels": labels.expected(tenant.metadata.key, pool, kind)
            | {names.LABEL_ROLE: role_name, names.LABEL_MANAGED_BY: names.MANAGED_BY},
            "annotations": {names.ANNOTATION_TENANT_UID: tenant.metadata.uid},
            "finalizers": [names.FINALIZER_ALLOCATION],
        },
        "spec": {
            "poolRef": {"name": pool},
            "tenantClusterRef": tenant.reference(),
            "type": kind,
            "count": size,
        },
    }
