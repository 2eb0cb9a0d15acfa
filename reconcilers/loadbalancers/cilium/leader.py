"""Reads which Cilium operator leads in a tenant: the holder of the operators' Lease."""

from datetime import datetime

from controller.client import Client
from controller.errors import Forbidden, NotFound
from controller.leases import LEASES, Lease
from reconcilers.loadbalancers.cilium.release import Leader

LEASE_NAME = "cilium-operator-resource-lock"


async def read_leader(client: Client) -> Leader:
    """Return the operator that leads in a tenant, by a live read.

    The Lease is in the namespace of Cilium, and no object tells which namespace that is. So the
    Lease is searched in all namespaces. Of several Leases, the last renewed counts.

    Returns:
        The leader; without a holder, but with a `problem`, if the Lease is absent or may not be
        read.

    Raises:
        ControllerError: the tenant did not answer.
    """
    try:
        page = await client.list(LEASES, fields=f"metadata.name={LEASE_NAME}")
    except (Forbidden, NotFound) as refused:
        problem = f"the Lease {LEASE_NAME} in the tenant cannot be read: {refused}"
        return Leader(problem=problem, is_hidden=isinstance(refused, Forbidden))
    leases = [lease for lease in page.items if lease.spec.holderIdentity]
    if not leases:
        return Leader(problem=f"no Lease {LEASE_NAME} in the tenant names a leader")
    newest = max(leases, key=_make_sort_key)
    holder = f"{newest.metadata.namespace}/{newest.spec.holderIdentity}"
    # Without a transition the holder is the first one: there is no earlier leader.
    took_over_at = _parse_time(newest.spec.acquireTime) if newest.spec.leaseTransitions else None
    return Leader(holder, took_over_at=took_over_at, renewed_at=_parse_time(newest.spec.renewTime))


def _parse_time(written: str | None) -> datetime | None:
    """Return a time of a Lease; None if it is absent, has no time zone, or cannot be parsed."""
    try:
        parsed = datetime.fromisoformat(written or "")
    except ValueError:
        return None
    return parsed if parsed.tzinfo is not None else None


def _make_sort_key(lease: Lease) -> str:
    """Return the sort key of a Lease: all times are in UTC and of one format, so texts compare."""
    return lease.spec.renewTime or ""
