"""Which Cilium operator leads in a tenant, by the Lease that all of them try to hold."""

from datetime import datetime

from controller.client import Client
from controller.errors import Forbidden, NotFound
from controller.leases import LEASES, Lease
from reconcilers.loadbalancers.cilium.release import Leader

LEASE_NAME = "cilium-operator-resource-lock"


async def read_leader(client: Client) -> Leader:
    """Return the operator that leads in a tenant, by a live read.

    The Lease is in the namespace of Cilium, which no object names. So it is looked for in all
    namespaces. If there are several, the one that was renewed last counts.

    Raises:
        ControllerError: the tenant did not answer.
    """
    try:
        page = await client.list(LEASES, fields=f"metadata.name={LEASE_NAME}")
    except (Forbidden, NotFound) as refused:
        return Leader(problem=f"the Lease {LEASE_NAME} in the tenant cannot be read: {refused}")
    leases = [lease for lease in page.items if lease.spec.holderIdentity]
    if not leases:
        return Leader(problem=f"no Lease {LEASE_NAME} in the tenant names a leader")
    newest = max(leases, key=_renewed_at)
    holder = f"{newest.metadata.namespace}/{newest.spec.holderIdentity}"
    return Leader(holder, took_over_at=_find_takeover(newest))


def _find_takeover(lease: Lease) -> datetime | None:
    """Return when the holder took the Lease of another operator; None if that is not known."""
    if not lease.spec.leaseTransitions or lease.spec.acquireTime is None:
        return None
    try:
        acquired_at = datetime.fromisoformat(lease.spec.acquireTime)
    except ValueError:
        return None  # a person wrote something else
    return acquired_at if acquired_at.tzinfo is not None else None


def _renewed_at(lease: Lease) -> str:
    return lease.spec.renewTime or ""
