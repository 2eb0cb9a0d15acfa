"""What all integrations show to people: read from a cluster, or from manifests.

An integration whose kinds are not served shows nothing. What KKP and vitistack take is imported
only where there is something of them: most commands meet neither, and should not wait for it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from controller.client import Client
from controller.meta import Version
from controller.resource import Resource
from reconcilers.api.networkpool import NetworkPool
from reconcilers.integrations.clusterapi import auditing, objects, planning, views
from reconcilers.integrations.core.objects import Objects, from_bodies, is_of, read
from reconcilers.integrations.core.scopedlists import ScopedLists
from reconcilers.integrations.core.views import Planned, Views, merge_views, views_of
from reconcilers.integrations.kubermatic.api import KINDS as KUBERMATIC
from reconcilers.integrations.vitistack.api import KINDS as VITISTACK

_REMOVABLE: Mapping[str, Resource[Any]] = {one.kind: one for one in KUBERMATIC} | {
    one.full_name: one for one in VITISTACK
}
"""The kinds of which `check --repair` deletes objects, by the names that findings have."""


@dataclass(frozen=True, slots=True)
class Found:
    """What was read of each platform."""

    clusterapi: objects.Objects
    kubermatic: Objects
    vitistack: Objects


async def remove(client: Client, kind: str, at: Version) -> None:
    """Delete an object of another platform that a person wants gone, as it was when seen.

    Args:
        client: for the requests.
        kind: of the object, as findings name it.
        at: which one, and its version.

    Raises:
        Conflict: it changed since.
        NotFound: it is gone already.
        ControllerError: a request failed.
    """
    if kind in _REMOVABLE:
        await client.delete(_REMOVABLE[kind], at)
    else:
        await objects.remove(client, kind, at)


def is_known(body: Mapping[str, Any]) -> bool:
    """Return whether a manifest is of a kind that some integration reads."""
    return objects.is_known(body) or is_of(body, (*KUBERMATIC, *VITISTACK))


async def from_cluster(
    client: Client, namespace: str, pools: Iterable[NetworkPool], now: datetime
) -> Views:
    """Return what integrations show of a cluster, as far as the user may read it.

    Where only one namespace may be read of a platform, its pools of the whole cluster are left
    out: nothing tells what other namespaces hold of them.

    Args:
        client: for the lists.
        namespace: read only this one of a kind that may not be read everywhere; empty for none.
        pools: the NetworkPools.
        now: the time.

    Raises:
        ControllerError: the cluster did not answer, or refused.
    """
    lists = [ScopedLists(client, namespace) for _ in range(3)]
    found = Found(
        await objects.read(lists[0]),
        await read(lists[1], KUBERMATIC),
        await read(lists[2], VITISTACK),
    )
    shown = []
    for platform, limited in zip(_views(found, pools, now), lists, strict=True):
        part = platform.within({namespace}) if namespace and limited.not_read else platform
        shown.append(replace(part, not_read=limited.not_read))
    return merge_views(shown)


def from_manifests(
    bodies: Sequence[Mapping[str, Any]],
    namespace: str,
    pools: Iterable[NetworkPool],
    now: datetime,
    *,
    held: planning.Held | None = None,
) -> Views:
    """Return what integrations show of manifests of kinds that are known here.

    Args:
        bodies: the manifests.
        namespace: of those that name none.
        pools: the NetworkPools.
        now: the time.
        held: what IPAllocations hold of NetworkPools, to work out what waiting requests would
            get; None to leave them waiting.
    """
    found = Found(
        objects.from_bodies((one for one in bodies if objects.is_known(one)), namespace),
        _of_manifests(bodies, KUBERMATIC, namespace, now),
        _of_manifests(bodies, VITISTACK, namespace, now),
    )
    return merge_views(_views(found, pools, now, held))


def _views(
    found: Found,
    pools: Iterable[NetworkPool],
    now: datetime,
    held: planning.Held | None = None,
) -> Sequence[Views]:
    """Return what each platform shows, in the order of `Found`."""
    planned = held is not None
    return (
        _of_clusterapi(found.clusterapi, pools, now, held),
        _of_kubermatic(found.kubermatic, now, planned=planned),
        _of_vitistack(found.vitistack, now, planned=planned),
    )


def _of_clusterapi(
    found: objects.Objects,
    pools: Iterable[NetworkPool],
    now: datetime,
    held: planning.Held | None,
) -> Views:
    caches, planned, bodies = found.caches(pools), list[Planned](), list[Mapping[str, Any]]()
    if held is not None:
        plan = planning.Plan(caches, held, now)
        planned, bodies = plan.run(), plan.bodies(found.bodies)
    contents = list(views.pools_of(caches))
    return replace(
        views.shown(contents),
        troubles=list(auditing.audit(caches, contents, found.unreadable, now)),
        planned=planned,
        bodies=bodies,
    )


def _of_manifests(
    bodies: Sequence[Mapping[str, Any]],
    kinds: Sequence[Resource[Any]],
    namespace: str,
    now: datetime,
) -> Objects:
    """Return the objects of a platform among manifests, as the platform leaves them."""
    if not any(is_of(one, kinds) for one in bodies):
        return Objects()
    if kinds is KUBERMATIC:
        from reconcilers.integrations.kubermatic.reading import filled
    else:
        from reconcilers.integrations.vitistack.caches import filled
    return from_bodies(bodies, kinds, namespace, now, filled)


def _of_kubermatic(found: Objects, now: datetime, *, planned: bool) -> Views:
    """Return what Kubermatic's objects hold of pools; import its modules only if needed."""
    if found.empty:
        return Views()
    from reconcilers.integrations.kubermatic.reading import caches_of
    from reconcilers.integrations.kubermatic.views import audit, contents_of, drawing_of, view_of

    caches = caches_of(found)
    plan, bodies = list[Planned](), list[Mapping[str, Any]]()
    if planned:
        from reconcilers.integrations.kubermatic.forecast import forecast

        plan, bodies = forecast(caches, found.bodies)
    contents = list(contents_of(caches))
    troubles = list(audit(caches, contents, found.unreadable))
    shown = views_of(contents, now, view_of, drawing_of)
    return replace(shown, troubles=troubles, planned=plan, bodies=bodies)


def _of_vitistack(found: Objects, now: datetime, *, planned: bool) -> Views:
    """Return what vitistack's objects hold of pools; import its modules only if needed."""
    if found.empty:
        return Views()
    from reconcilers.integrations.vitistack.caches import caches_of
    from reconcilers.integrations.vitistack.views import audit, contents_of, drawing_of, view_of

    caches = caches_of(found)
    plan, bodies = list[Planned](), list[Mapping[str, Any]]()
    if planned:
        from reconcilers.integrations.vitistack.forecast import forecast

        plan, bodies = forecast(caches, found.bodies, now)
    contents = list(contents_of(caches))
    troubles = list(audit(caches, contents, found.unreadable, now))
    shown = views_of(contents, now, view_of, drawing_of)
    return replace(shown, troubles=troubles, planned=plan, bodies=bodies)
