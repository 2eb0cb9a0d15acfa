"""Runs the controllers on the API server of a plan until they rest, in virtual time.

The controllers *rest* when no object has changed for some time.
"""

import gc
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from datetime import datetime

import anyio

from controller.loggers import mute_lines
from controller.manager import Manager
from controller.options import ManagerOptions
from controller.testing.clock import VirtualClock
from reconcilers.cli.planning.drafts import (
    Draft,
    build_age_sort_key,
    find_integrations,
    list_drafts,
)
from reconcilers.cli.planning.server import PlanServer
from reconcilers.cli.reading.manifests import Manifests
from reconcilers.configuration.settings import Settings
from reconcilers.wiring.offline import assemble_offline

STEP_SECONDS = 3.0
"""TenantClusters are stored after this time without a change. It is longer than a pass waits for a
cache."""
CLUSTER_SECONDS = 0.3
"""The next TenantCluster is stored after this time without a change. It is longer than changes are
gathered before a pass."""
REST_SECONDS = 150.0
"""The plan is done after this time without a change. It is longer than the resync of pools, the
quiet period of a journal, and the silence that is expected of another controller."""
MOST_SECONDS = 3_600.0
"""A step ends after this time even if objects still change."""
_POLL_SECONDS = 100.0
"""Seconds between two passes over a waiting cluster. Clusters of tenants do not change during a
plan, so that is rare. It is less than REST_SECONDS, so each cluster has a last pass."""
_CONCURRENT_WRITES = 256
"""The number of concurrent status writes: more than the default, so the event loop has fewer
turns."""


def run_controllers(manifests: Manifests, settings: Settings, now: datetime) -> PlanServer:
    """Run the controllers on manifests; return the API server with the objects after the run.

    Args:
        manifests: the input.
        settings: the settings of the controllers. The input decides which platforms are served.
        now: the time at which the plan begins.
    """
    integrations = find_integrations(manifests)
    planned = replace(
        settings,
        integration=integrations,
        pool=replace(settings.pool, width=_CONCURRENT_WRITES),
        tenant=replace(
            settings.tenant, requeue_waiting=_POLL_SECONDS, requeue_not_ready=_POLL_SECONDS
        ),
    )
    with mute_lines(), _disable_garbage_collection():
        return anyio.run(_run, manifests, VirtualClock(now), planned)


async def _run(manifests: Manifests, clock: VirtualClock, settings: Settings) -> PlanServer:
    """Store the objects step by step, and wait for the controllers after each step.

    1. Pools without a journal get one, on a server of their own.
    2. All objects but the TenantClusters are stored.
    3. The TenantClusters are stored one by one, the oldest first, so that older clusters are
       served first.
    """
    drafts = list_drafts(
        manifests, settings.integration, namespace=settings.namespace, now=clock.now()
    )
    drafts, revision = await _store_journals(drafts, clock, settings)
    server = PlanServer(drafts, settings.integration, clock=clock, first_revision=revision)
    if manifests.platform_default is not None:
        server.store_platform_default(manifests.platform_default)
    for manifest in manifests.providers:
        server.store_credentials(manifest.object)
    server.store_all_but_tenants()
    async with _run_controllers(server, clock, settings):
        await _wait_for_rest(server, clock, STEP_SECONDS)
        for cluster in _list_clusters(manifests, drafts):
            server.api.put_object(cluster.resource, cluster.body)
            await _wait_for_rest(server, clock, CLUSTER_SECONDS)
        server.is_at_rest = await _wait_for_rest(server, clock, REST_SECONDS)
    return server


async def _store_journals(
    drafts: Sequence[Draft], clock: VirtualClock, settings: Settings
) -> tuple[list[Draft], int]:
    """Let controllers write journals of new pools, on a server without requests.

    The journal of a pool has its promises: ranges that are not written to their requests yet. In a
    cluster, too, a pool has a journal before requests come. The first pass over a pool without a
    journal would write to all its requests, to void promises that may be lost.

    Returns:
        The objects of the input, with pools that have journals, and the newest resourceVersion in
        the journals.
    """
    new = [draft for draft in drafts if draft.lacks_journal]
    if not new:
        return list(drafts), 1
    server = PlanServer(new, settings.integration, clock)
    server.store_all_but_tenants()
    async with _run_controllers(server, clock, settings):
        await _wait_for_rest(server, clock, STEP_SECONDS)
    prepared_drafts = list(drafts)
    for index, draft in enumerate(drafts):
        if draft.lacks_journal:
            stored = server.api.get_stored(draft.resource, draft.key)
            assert stored is not None, "nothing deletes pools"
            # The next server assigns another. With this one, the pool would count as stored.
            del stored["metadata"]["resourceVersion"]
            prepared_drafts[index] = replace(draft, body=stored)
    return prepared_drafts, server.api.revision


def _list_clusters(manifests: Manifests, drafts: Sequence[Draft]) -> list[Draft]:
    """Return the drafts of the TenantClusters, the oldest first: they request in this order.

    A draft is an object of the input in the form in which the plan's API server stores it.
    """
    drafts_by_key = {draft.key: draft for draft in drafts if draft.is_tenant_cluster}
    tenants = sorted(manifests.tenants, key=lambda manifest: build_age_sort_key(manifest.object))
    return [drafts_by_key[manifest.key] for manifest in tenants]


@asynccontextmanager
async def _run_controllers(
    server: PlanServer, clock: VirtualClock, settings: Settings
) -> AsyncIterator[None]:
    """Run the controllers on a server during the context."""
    manager = Manager(server.api, clock=clock, options=ManagerOptions(stream_lists=False))
    assemble_offline(manager, clock, settings)
    async with anyio.create_task_group() as group:
        group.start_soon(manager.run)
        yield
        group.cancel_scope.cancel()  # a manager runs until it is cancelled


async def _wait_for_rest(server: PlanServer, clock: VirtualClock, seconds: float) -> bool:
    """Let virtual time pass until no object has changed for some seconds.

    Return whether the controllers came to rest: False if objects still changed after MOST_SECONDS.
    """
    end = clock.monotonic() + MOST_SECONDS
    while clock.monotonic() < end:
        revision = server.api.revision
        await clock.advance(seconds)
        if server.api.revision == revision:
            return True
    return False


@contextmanager
def _disable_garbage_collection() -> Iterator[None]:
    """Collect no garbage during the context, as that takes a tenth of a short command's time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
