"""etcd compacts its history: a client that has not seen all of it gets an error, and lists anew.

The compaction is real. kube-apiserver answers 410 by itself if it has a watch cache, and passes on
etcd's answer if it has none. Without a cache a watch may also end with 500, because an event whose
previous state was compacted cannot be sent.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest

from controller import Change, Client, Manager
from controller.meta import Version
from controller.watch import EXPIRED
from envtest import ControlPlane
from envtest.faults import LateRequest, Match, Pause, Proxy
from reconcilers.api.resources import IP_ALLOCATION
from tests.envtest.samples import build_gauge_definition
from tests.faults.estate import LARGE, PACE, SwiftClock, run_bare_estate
from tests.faults.parts import (
    ControlPlaneProcesses,
    PlaneAtUrl,
    SecondServer,
    access_processes,
    parse_address,
)
from tests.faults.pipes import HOST, Pipe
from tests.faults.proxied import GAUGES, WATCH, Gauge, ProxiedPlane, open_transport, run_informer
from tests.polling import SECONDS

pytestmark = pytest.mark.slow

WITH_AND_WITHOUT_CACHE = pytest.mark.parametrize(
    "has_watch_cache", [True, False], ids=["watch cache", "etcd"]
)
ALLOCATIONS, BATCH = 30, 6
"""How many allocations are created, and how many of them between two compactions."""
SEVERAL_PARTS = 501
"""So many gauges that a list of them has two parts."""
UNDELIVERED = 400
"""More events than etcd buffers for an API server that does not receive them."""


@asynccontextmanager
async def _run_proxied_plane(
    *, has_watch_cache: bool
) -> AsyncIterator[tuple[ProxiedPlane, ControlPlaneProcesses, SecondServer]]:
    """Run a second API server, with or without a watch cache, behind a proxy.

    Yields:
        the plane whose proxied clients use the second API server, the processes, and that server.
    """
    async with (
        ControlPlane.start() as plane,
        access_processes(plane) as parts,
        parts.run_second_apiserver(watch_cache=str(has_watch_cache).lower()) as second,
        Proxy.run_before(second.plane) as proxy,
    ):
        await plane.install_crds([build_gauge_definition()])
        await second.plane.install_crds([build_gauge_definition()])
        async with open_transport(plane) as direct, open_transport(proxy) as proxied_transport:
            yield (
                ProxiedPlane(
                    plane,
                    proxy,
                    direct=Client(direct),
                    client=Client(proxied_transport),
                    transport=proxied_transport,
                ),
                parts,
                second,
            )


def _describe_change(change: Change[Gauge]) -> str:
    old, new = (gauge.metadata.name if gauge else "-" for gauge in (change.old, change.new))
    return f"{old} {new}{' unknown' if change.final_state_unknown else ''}"


@WITH_AND_WITHOUT_CACHE
async def test_a_watch_from_a_compacted_revision_fails_and_a_list_follows(
    has_watch_cache: bool,
) -> None:
    async with _run_proxied_plane(has_watch_cache=has_watch_cache) as (proxied, parts, second):
        gone = await proxied.create("gone")
        await proxied.create("stays")
        gate = anyio.Event()
        delay = LateRequest(Pause(until=gate))
        with proxied.proxy.inject(delay, WATCH):
            async with run_informer(proxied) as observed:
                await proxied.proxy.calls.wait(1, lambda call: call.verb == "watch")
                await proxied.delete(gone)
                await proxied.create("new")
                await parts.compact()
                if has_watch_cache:
                    await second.restart()  # its watch cache would still have the events
                gate.set()
                await observed.wait_for_changes(4)
                assert observed.count_restarts()["expired"] == 1
            assert sorted(_describe_change(change) for change in observed.changes[2:]) == [
                "- new",
                "gone - unknown",
            ]
            assert proxied.list_revisions("list") == ["0", None]


@WITH_AND_WITHOUT_CACHE
async def test_a_watch_behind_a_compaction_ends_and_no_change_is_missed(
    has_watch_cache: bool,
) -> None:
    async with _run_proxied_plane(has_watch_cache=has_watch_cache) as (proxied, parts, second):
        gone, busy = await proxied.create("gone"), await proxied.create("busy")
        async with run_informer(proxied) as observed:
            await proxied.proxy.calls.wait(1, lambda call: call.verb == "watch")
            with second.freeze():
                await proxied.delete(gone)
                for count in range(UNDELIVERED):
                    patch = {"spec": {"count": count}}
                    busy = await proxied.direct.patch(GAUGES, Version.from_object(busy), patch)
                await parts.compact()
            with anyio.fail_after(SECONDS):
                while observed.informer.cache.get(busy.metadata.key) != busy:
                    await observed.wait_for_changes(len(observed.changes) + 1)
            assert observed.names == ["busy"]
            assert [change.old for change in observed.changes if change.new is None] == [gone]
            if has_watch_cache:
                assert observed.count_restarts()["expired"] == 1
            else:
                # etcd, read without a cache, may miss what it forgot in the middle of an event.
                assert {"expired", "failed"} & observed.count_restarts().keys()


async def test_a_list_whose_continue_token_is_compacted_is_requested_in_one_piece() -> None:
    # With its watch cache the server keeps snapshots of its own, and answers from those.
    async with _run_proxied_plane(has_watch_cache=False) as (proxied, parts, _):
        async with anyio.create_task_group() as group:
            for number in range(SEVERAL_PARTS):
                group.start_soon(proxied.create, f"g{number:04}")
        gate = anyio.Event()
        delay = LateRequest(Pause(until=gate))
        next_part = Match(verb="list", where=lambda call: "continue" in call.query, times=1)
        gauges = dict[str, Gauge]()

        async def list_gauges() -> None:
            listed = await proxied.client.list(GAUGES)
            gauges.update((gauge.metadata.name, gauge) for gauge in listed.items)

        with proxied.proxy.inject(delay, next_part) as injected:
            async with anyio.create_task_group() as group:
                group.start_soon(list_gauges)
                await injected.affected_calls.wait()
                await proxied.create("new")
                await parts.compact()
                gate.set()
        assert len(gauges) == SEVERAL_PARTS + 1
        assert "new" in gauges
        first, second, whole = (sorted(call.query) for call in proxied.list_calls("list"))
        assert (first, second, whole) == (["limit"], ["continue", "limit"], [])


async def test_every_allocation_is_served_although_etcd_compacts_undelivered_events() -> None:
    async with (
        ControlPlane.start() as plane,
        access_processes(plane) as parts,
        parts.run_second_apiserver(watch_cache="false") as second,
        Pipe.before(parse_address(second.plane.url)) as pipe,
        run_bare_estate(plane, PlaneAtUrl(plane, f"https://{HOST}:{pipe.port}"), LARGE) as estate,
    ):
        for _ in range(2):
            estate.start_process(clock=SwiftClock(speed=PACE))
        await estate.create_cluster()
        for number in range(0, ALLOCATIONS, BATCH):
            for other in range(number, number + BATCH):
                await estate.create_allocation(f"n{other}", count=1 + other % 3)
            await estate.witness.wait_while(estate.witness.describe_unsettled)
            # Every watch begins anew, and what was written before that is compacted.
            pipe.cut_connections()
            await estate.create_allocation(f"nn{number}")
            await parts.compact()
        await estate.witness.wait_while(estate.witness.describe_unsettled)
        assert estate.witness.overlaps == []
        expired = [_count_expired(manager) for manager in estate.managers.values()]
        assert all(expired), expired


def _count_expired(manager: Manager) -> float:
    """Return how often the watch of allocations was restarted because it had expired."""
    labels = {"resource": f"{IP_ALLOCATION.plural}.{IP_ALLOCATION.group}", "reason": EXPIRED}
    name = "controller_watch_restarts_total"
    return manager.metrics.registry.get_sample_value(name, labels) or 0
