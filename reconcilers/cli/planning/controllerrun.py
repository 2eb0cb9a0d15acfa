"""Lets the controllers work on the API server of a plan until they rest, in virtual time."""

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
from reconcilers.cli.planning.drafts import Draft, age, find_integrations, list_drafts
from reconcilers.cli.planning.server import PlanServer
from reconcilers.cli.reading.manifests import Manifests
from reconcilers.configuration.settings import Settings
from reconcilers.wiring.offline import assemble_offline

STEP_SECONDS = 3.0
"""No object changes for so long before TenantClusters ask: longer than passes wait for a cache."""
CLUSTER_SECONDS = 0.3
"""The same before the next TenantCluster: longer than changes are gathered."""
REST_SECONDS = 150.0
"""No object changes for so long before the plan is done: longer than the resync of pools, the
quiet period of a journal, and the silence that is expected of another controller."""
MOST_SECONDS = 3_600.0
"""A step ends after so long, though objects still change."""
_POLL = 100.0
"""Seconds between two passes over a cluster that waits: no tenant changes meanwhile. It is less
than the rest at the end, so each of them has a last pass."""
_WIDTH = 256
"""Status writes in flight at once: fewer turns of the event loop than with the default."""


def run_controllers(manifests: Manifests, settings: Settings, now: datetime) -> PlanServer:
    """Let the controllers work on manifests; return the server with what they left there.

    Args:
        manifests: the input.
        settings: those of the controllers; which platforms are served follows from the input.
        now: when the plan begins.
    """
    integrations = find_integrations(manifests)
    planned = replace(
        settings,
        integration=integrations,
        pool=replace(settings.pool, width=_WIDTH),
        tenant=replace(settings.tenant, requeue_waiting=_POLL, requeue_not_ready=_POLL),
    )
    with mute_lines(), _without_collection():
        return anyio.run(_run, manifests, VirtualClock(now), planned)


async def _run(manifests: Manifests, clock: VirtualClock, settings: Settings) -> PlanServer:
    """Store the objects step by step, and let the controllers rest after each step."""
    drafts = list_drafts(
        manifests, settings.integration, namespace=settings.namespace, now=clock.now()
    )
    drafts, revision = await _give_journals(drafts, clock, settings)
    server = PlanServer(drafts, settings.integration, clock=clock, first_revision=revision)
    if manifests.platform_default is not None:
        server.store_platform_default(manifests.platform_default)
    for manifest in manifests.providers:
        server.store_credentials(manifest.object)
    server.store_drafts()
    async with _controllers(server, clock, settings):
        await _rest(server, clock, STEP_SECONDS)
        for cluster in _clusters(manifests, drafts):
            server.api.put_object(cluster.resource, cluster.body)
            await _rest(server, clock, CLUSTER_SECONDS)
        server.is_at_rest = await _rest(server, clock, REST_SECONDS)
    return server


async def _give_journals(
    drafts: Sequence[Draft], clock: VirtualClock, settings: Settings
) -> tuple[list[Draft], int]:
    """Let pools that are new get a journal on a server without requests, as in a cluster.

    Otherwise the first pass over each would void promises to all requests of the input.

    Returns:
        The objects, and the newest resourceVersion in the journals.
    """
    new = [draft for draft in drafts if draft.lacks_journal]
    if not new:
        return list(drafts), 1
    server = PlanServer(new, settings.integration, clock)
    server.store_drafts()
    async with _controllers(server, clock, settings):
        await _rest(server, clock, STEP_SECONDS)
    fenced = list(drafts)
    for at, draft in enumerate(drafts):
        if draft.lacks_journal:
            stored = server.api.get_stored(draft.resource, draft.key)
            assert stored is not None, "nothing deletes pools"
            del stored["metadata"]["resourceVersion"]
            fenced[at] = replace(draft, body=stored)
    return fenced, server.api.revision


def _clusters(manifests: Manifests, drafts: Sequence[Draft]) -> list[Draft]:
    """Return the TenantClusters, oldest first: they ask one by one."""
    drafts_by_key = {draft.key: draft for draft in drafts if draft.asks_later}
    tenants = sorted(manifests.tenants, key=lambda manifest: age(manifest.object))
    return [drafts_by_key[manifest.key] for manifest in tenants]


@asynccontextmanager
async def _controllers(
    server: PlanServer, clock: VirtualClock, settings: Settings
) -> AsyncIterator[None]:
    """Run the controllers on a server for the context."""
    manager = Manager(server.api, clock=clock, options=ManagerOptions(stream_lists=False))
    assemble_offline(manager, clock, settings)
    async with anyio.create_task_group() as group:
        group.start_soon(manager.run)
        yield
        group.cancel_scope.cancel()


async def _rest(server: PlanServer, clock: VirtualClock, seconds: float) -> bool:
    """Let time pass until no object has changed for so many seconds; return whether that is so."""
    end = clock.monotonic() + MOST_SECONDS
    while clock.monotonic() < end:
        revision = server.api.revision
        await clock.advance(seconds)
        if server.api.revision == revision:
            return True
    return False


@contextmanager
def _without_collection() -> Iterator[None]:
    """Collect no garbage: a tenth of the time goes into it, and the command soon ends."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
