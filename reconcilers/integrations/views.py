"""What all integrations show to people: read from a cluster, or from manifests.

An integration whose kinds are not served shows nothing.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from controller.client import Client
from reconcilers.api.networkpool import NetworkPool
from reconcilers.api.resources import NETWORK_POOL
from reconcilers.integrations.clusterapi import auditing, objects, planning, views
from reconcilers.integrations.core.views import Planned, Views

is_known = objects.is_known
remove = objects.remove


async def from_cluster(
    client: Client, namespace: str, pools: Iterable[NetworkPool], now: datetime
) -> Views:
    """Return what integrations show of a cluster.

    Args:
        client: for the lists.
        namespace: only this one; empty for all.
        pools: the NetworkPools.
        now: the time.

    Raises:
        ControllerError: the cluster did not answer, or refused.
    """
    return _views(await objects.read(client, namespace), pools, now)


def from_manifests(
    bodies: Sequence[Mapping[str, Any]],
    namespace: str,
    pools: Iterable[NetworkPool],
    now: datetime,
    *,
    only: str = "",
    held: planning.Held | None = None,
) -> Views:
    """Return what integrations show of manifests of kinds that are known here.

    Args:
        bodies: the manifests.
        namespace: of those that name none.
        pools: the NetworkPools.
        now: the time.
        only: a namespace, to leave out what is in others.
        held: what IPAllocations hold of NetworkPools, to work out what waiting requests would
            get; None to leave them waiting.
    """
    return _views(objects.from_bodies(bodies, namespace, only), pools, now, held)


def _views(
    found: objects.Objects,
    pools: Iterable[NetworkPool],
    now: datetime,
    held: planning.Held | None = None,
) -> Views:
    world = found.world(pools)
    planned: Sequence[Planned] = ()
    bodies: Sequence[Mapping[str, Any]] = ()
    if held is not None:
        plan = planning.Plan(world, held, now)
        planned, bodies = plan.run(), plan.bodies(found.bodies)
    contents = list(views.pools_of(world))
    holders = {
        one.pool.metadata.key: list(views.as_allocations(one))
        for one in contents
        if one.kind == NETWORK_POOL and one.space is not None
    }
    troubles = auditing.audit(world, contents, found.unreadable, now)
    return Views(
        [views.view_of(one) for one in contents],
        list(troubles),
        holders,
        planned,
        bodies,
        [views.drawing_of(one) for one in contents if one.kind != NETWORK_POOL],
    )
