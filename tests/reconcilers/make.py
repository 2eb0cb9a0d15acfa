"""Objects for tests: plausible metadata, and otherwise only the fields that the test names."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address, IPv6Address
from itertools import count
from typing import Any

import msgspec
from msgspec.structs import asdict

from controller.meta import Key
from reconcilers.api.ipallocation import IPAllocation
from reconcilers.api.networkpool import Assignment, NetworkPool, NetworkPoolStatus
from reconcilers.api.providerconfig import ProviderConfig
from reconcilers.api.tenantcluster import TenantCluster
from reconcilers.networkpool import status as poolstatus
from reconcilers.networkpool.facts import KIND
from reconcilers.networkpool.offers import make_offers
from reconcilers.networkpool.protocol import PassDecision
from reconcilers.networkpool.statusjournal import STATUS_JOURNALS, compute_seal
from reconcilers.networkpool.view import AllocationsView
from reconcilers.spaces.index import SpaceIndex
from reconcilers.spaces.offers import PoolName
from reconcilers.spaces.sharing import Kinds

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
NAMESPACE = "butler-system"
_revisions = count(1000)


FIRST: dict[int, IPv4Address | IPv6Address] = {
    4: IPv4Address("10.40.0.0"),
    6: IPv6Address("fd00::40:0"),
}
"""The first address of a default pool, by IP family."""


def address(offset: int, family: int = 4) -> str:
    """Return the address that is `offset` addresses after the first of a default pool."""
    return str(FIRST[family] + offset)


def cidr(bits: int = 8, family: int = 4) -> str:
    """Return the CIDR of 2^bits addresses that starts at the first address of a default pool."""
    return f"{FIRST[family]}/{prefix_length(bits, family)}"


def prefix_length(bits: int, family: int = 4) -> int:
    """Return the prefix length of CIDRs with 2^bits addresses."""
    return (32 if family == 4 else 128) - bits


def key(name: str, namespace: str = NAMESPACE) -> Key:
    """Return the key of an object, by default in the namespace of pools and allocations."""
    return Key(namespace, name)


def metadata(name: str, namespace: str = NAMESPACE, **extra: Any) -> dict[str, Any]:
    """Return metadata with all fields that an API server fills in."""
    return {
        "name": name,
        "namespace": namespace,
        "uid": f"uid-{namespace}-{name}",
        "resourceVersion": str(next(_revisions)),
        "generation": 1,
        "creationTimestamp": EPOCH.isoformat(),
    } | extra


def pool(
    name: str = "lab",
    cidr: str = "10.40.0.0/24",
    *,
    reserved: Sequence[str] = (),
    tenant: Mapping[str, Any] | None = None,
    secondary: Mapping[str, Any] | None = None,
    edges: bool | None = False,
    memory: int | None = 1,
    status: Mapping[str, Any] | None = None,
    **meta: Any,
) -> NetworkPool:
    """Return a NetworkPool that has its finalizer and a journal.

    Args:
        cidr: its spec.cidr.
        reserved: the CIDRs of spec.reserved.
        tenant: spec.tenantAllocation; None to leave it out.
        secondary: spec.secondary; None to leave it out.
        edges: spec.excludeNetworkAndBroadcast; None to leave it out.
        memory: the revision up to which the journal requires allocations to be read; None for a
            pool without a journal.
        status: further fields of the status.
        meta: further metadata.
    """
    spec: dict[str, Any] = {"cidr": cidr, "reserved": [{"cidr": c} for c in reserved]}
    if edges is not None:
        spec["excludeNetworkAndBroadcast"] = edges
    if tenant is not None:
        spec["tenantAllocation"] = tenant
    if secondary is not None:
        spec["secondary"] = secondary
    meta = {"finalizers": ["butler.butlerlabs.dev/networkpool"]} | meta
    own = metadata(name, **meta)
    stored = dict(status or {})
    if memory is not None:
        stored = seal_status(own["uid"], build_journal_status(own["uid"], memory) | stored)
    body = {"metadata": own, "spec": spec, "status": stored}
    return msgspec.convert(body, NetworkPool)


CLAIMS = "ipaddressclaims.ipam.cluster.x-k8s.io"


def build_journal_status(
    uid: str, revision: int, *assignments: Mapping[str, str]
) -> dict[str, Any]:
    """Return the status fields that are the journal of a pool.

    Args:
        uid: the uid of the pool.
        revision: the revision up to which the journal requires allocations to be read.
        assignments: the promises.
    """
    return seal_status(uid, {"revisions": {KIND: str(revision)}, "assignments": [*assignments]})


def seal_status(uid: str, status: Mapping[str, Any]) -> dict[str, Any]:
    """Return `status` with the seal that binds its journal to the pool with this uid."""
    journal = msgspec.convert(status, NetworkPoolStatus)
    return {**status, "journalOf": compute_seal(uid, journal.revisions, journal.assignments)}


def replace_promises(pool: Mapping[str, Any], *assignments: Mapping[str, str]) -> dict[str, Any]:
    """Return a patch that replaces the promises of a pool.

    Args:
        pool: the stored pool.
        assignments: the new promises, in the form of `status.assignments`.
    """
    revisions = (pool.get("status") or {}).get("revisions") or {}
    status = seal_status(
        pool["metadata"]["uid"], {"revisions": revisions, "assignments": [*assignments]}
    )
    return {"status": status}


def read_revision(status: Mapping[str, Any]) -> str:
    """Return the revision up to which a journal requires allocations to be read; "" if none.

    Args:
        status: the status of the pool with the journal.
    """
    return str((status.get("revisions") or {}).get(KIND) or "")


def allocation(
    name: str,
    *,
    of: str = "lab",
    tenant: str = "team/a",
    kind: str = "loadbalancer",
    size: int | None = None,
    prefix: int | None = None,
    pin: tuple[str, str] | None = None,
    held_range: tuple[str, str] | None = None,
    phase: str | None = None,
    age: float = 0.0,
    asks: Mapping[str, Any] | None = None,
    status: Mapping[str, Any] | None = None,
    **meta: Any,
) -> IPAllocation:
    """Return an IPAllocation that has its finalizer.

    Args:
        of: the name of its pool.
        tenant: namespace/name of its TenantCluster.
        kind: its spec.type.
        size: its spec.count; None to leave it out.
        prefix: its spec.prefixLength; None to leave it out.
        pin: the ends of its spec.pinnedRange; None to leave it out.
        held_range: the ends of the range in its status, which is Allocated then; None for none.
        phase: the phase of its status, if it is not the one that follows from `held_range`.
        age: how many seconds before EPOCH it was created.
        asks: further fields of the spec.
        status: further fields of the status.
        meta: further metadata.
    """
    namespace, cluster = tenant.split("/")
    spec: dict[str, Any] = {
        "poolRef": {"name": of},
        "tenantClusterRef": {"name": cluster, "namespace": namespace},
        "type": kind,
        **(asks or {}),
    }
    if size is not None:
        spec["count"] = size
    if prefix is not None:
        spec["prefixLength"] = prefix
    if pin is not None:
        spec["pinnedRange"] = {"startAddress": pin[0], "endAddress": pin[1]}
    reported: dict[str, Any] = {"phase": phase or ("Allocated" if held_range else None)}
    if held_range is not None:
        reported |= {"startAddress": held_range[0], "endAddress": held_range[1]}
    meta = {
        "finalizers": ["butler.butlerlabs.dev/ipallocation"],
        "creationTimestamp": (EPOCH - timedelta(seconds=age)).isoformat(),
    } | meta
    body = {
        "metadata": metadata(name, **meta),
        "spec": spec,
        "status": reported | dict(status or {}),
    }
    return msgspec.convert(body, IPAllocation)


def promise(of: IPAllocation, start: str, end: str, *, version: str | None = None) -> Assignment:
    """Return the promise of a range to an allocation.

    Args:
        of: the allocation.
        start: the first address.
        end: the last address.
        version: the resourceVersion that the promise was made for; None for the current one.
    """
    meta = of.metadata
    return Assignment(
        name=meta.name,
        uid=meta.uid,
        resourceVersion=version or meta.resourceVersion,
        startAddress=start,
        endAddress=end,
    )


def render_promise(of: Assignment) -> dict[str, str]:
    """Return a promise in the form that it has in the status of its pool."""
    return {name: value for name, value in asdict(of).items() if value is not None}


def render_claim_promise(start: str, end: str, *, name: str = "a") -> dict[str, str]:
    """Return a promise to an IPAddressClaim in the form that it has in the status of its pool."""
    meta = {"name": name, "uid": "uid-of-claim", "resourceVersion": "3", "kind": CLAIMS}
    return meta | {"startAddress": start, "endAddress": end}


def render_pool_status(
    pool: NetworkPool, seen: AllocationsView, decision: PassDecision, now: datetime = EPOCH
) -> dict[str, Any]:
    """Return the status that a pass writes to a pool: figures, conditions and journal."""
    figures = poolstatus.render_figures(pool, seen, decision=decision, now=now)
    return figures | STATUS_JOURNALS.build_patch_fields(pool, decision.journal)


def view(*allocations: IPAllocation, position: int = 10**9, of: str = "lab") -> AllocationsView:
    """Return the view of a pool's allocations that a pass works on.

    Args:
        allocations: all allocations, of this pool and of others.
        position: the revision up to which the view is complete.
        of: the name of the pool.
    """
    return AllocationsView.from_allocations(
        position,
        tuple(a for a in allocations if a.spec.poolRef.name == of),
        {a.metadata.key: a for a in allocations}.get,
    )


def spaces(*pools: NetworkPool) -> SpaceIndex:
    """Return an index of the addresses that these NetworkPools hand out."""
    index = SpaceIndex()
    for pool in pools:
        index.put(PoolName("NetworkPool", pool.metadata.key), make_offers(pool, 1 << 20))
    index.settle(Kinds.NETWORK_POOLS)
    return index


def tenant(
    name: str = "a",
    namespace: str = "team",
    *,
    spec: Mapping[str, Any] | None = None,
    status: Mapping[str, Any] | None = None,
    **meta: Any,
) -> TenantCluster:
    """Return a TenantCluster with its finalizer."""
    meta = {"finalizers": ["butler.butlerlabs.dev/tenantcluster-ipam"]} | meta
    body = {
        "metadata": metadata(name, namespace, **meta),
        "spec": {"kubernetesVersion": "v1.33.1", "workers": {"replicas": 1}} | dict(spec or {}),
        "status": dict(status or {}),
    }
    return msgspec.convert(body, TenantCluster)


def provider(
    *pools: str | tuple[str, int],
    name: str = "default",
    load_balancer: Mapping[str, Any] | None = None,
    quota: Mapping[str, Any] | None = None,
    spec: Mapping[str, Any] | None = None,
    status: Mapping[str, Any] | None = None,
    **meta: Any,
) -> ProviderConfig:
    """Return a ProviderConfig in IPAM mode over `pools`, each a name or a name and a priority."""
    network: dict[str, Any] = {
        "mode": "ipam",
        "poolRefs": [
            {"name": p} if isinstance(p, str) else {"name": p[0], "priority": p[1]} for p in pools
        ],
        "loadBalancer": dict(load_balancer or {}),
        "quotaPerTenant": dict(quota or {}),
    }
    body = {
        "metadata": metadata(name, **meta),
        "spec": {"provider": "local", "network": network} | dict(spec or {}),
        "status": dict(status or {}),
    }
    return msgspec.convert(body, ProviderConfig)
