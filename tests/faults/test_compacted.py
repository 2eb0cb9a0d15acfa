"""etcd compacts its history: a client that has not seen all of it gets an error, and lists anew.

That is real compaction, through etcd, seen through kube-apiserver with its watch cache, which
answers 410 of its own accord, and without, where etcd does. A watch that etcd leaves behind may
end there with 500 instead: an event whose previous state was compacted cannot be sent.
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
from tests.faults.estate import LARGE, PACE, SwiftClock, bare_estate
from tests.faults.parts import Elsewhere, Parts, SecondServer, place, taken_apart
from tests.faults.pipes import HOST, Pipe
from tests.faults.proxied import GAUGES, WATCH, Gauge, ProxiedPlane, observe, transport_to
from tests.polling import SECONDS

pytestmark = pytest.mark.slow

CACHED = pytest.mark.parametrize("cached", [True, False], ids=["watch cache", "etcd"])
ASKED, BETWEEN = 30, 6
SEVERAL_PARTS = 501
MANY = 400
"""So many events that etcd keeps them no longer for a server that does not take them."""


@asynccontextmanager
async def _proxied_plane(
    *, cached: bool
) -> AsyncIterator[tuple[ProxiedPlane, Parts, SecondServer]]:
    """Watch through a second API server, so that it can be restarted and frozen."""
    async with (
        ControlPlane.start() as plane,
        taken_apart(plane) as parts,
        parts.second_apiserver(watch_cache=str(cached).lower()) as second,
        Proxy.before(second.plane) as proxy,
    ):
        await plane.install_crds([build_gauge_definition()])
        await second.plane.install_crds([build_gauge_definition()])
        async with transport_to(plane) as direct, transport_to(proxy) as through:
            yield (
                ProxiedPlane(
                    plane, proxy, direct=Client(direct), client=Client(through), transport=through
                ),
                parts,
                second,
            )


def _describe_change(change: Change[Gauge]) -> str:
    old, new = (gauge.metadata.name if gauge else "-" for gauge in (change.old, change.new))
    return f"{old} {new}{' unknown' if change.final_state_unknown else ''}"


@CACHED
async def test_a_watch_from_a_compacted_revision_fails_and_a_list_follows(
    cached: bool,
) -> None:
    async with _proxied_plane(cached=cached) as (here, parts, second):
        gone = await here.create("gone")
        await here.create("stays")
        gate = anyio.Event()
        late = LateRequest(Pause(until=gate))
        with here.proxy.inject(late, WATCH):
            async with observe(here) as seen:
                await here.proxy.calls.wait(1, lambda call: call.verb == "watch")
                await here.delete(gone)
                await here.create("new")
                await parts.compact()
                if cached:
                    await second.restart()  # its cache would have known
                gate.set()
                await seen.wait(4)
                assert seen.restarts()["expired"] == 1
            assert sorted(_describe_change(change) for change in seen.changes[2:]) == [
                "- new",
                "gone - unknown",
            ]
            assert here.revisions("list") == ["0", None]


@CACHED
async def test_a_watch_behind_a_compaction_ends_and_no_change_is_missed(cached: bool) -> None:
    async with _proxied_plane(cached=cached) as (here, parts, second):
        gone, busy = await here.create("gone"), await here.create("busy")
        async with observe(here) as seen:
            await here.proxy.calls.wait(1, lambda call: call.verb == "watch")
            with second.frozen():
                await here.delete(gone)
                for count in range(MANY):
                    patch = {"spec": {"count": count}}
                    busy = await here.direct.patch(GAUGES, Version.from_object(busy), patch)
                await parts.compact()
            with anyio.fail_after(SECONDS):
                while seen.informer.cache.get(busy.metadata.key) != busy:
                    await seen.wait(len(seen.changes) + 1)
            assert seen.names == ["busy"]
            assert [change.old for change in seen.changes if change.new is None] == [gone]
            if cached:
                assert seen.restarts()["expired"] == 1
            else:
                # etcd, read without a cache, may miss what it forgot in the middle of an event.
                assert {"expired", "failed"} & seen.restarts().keys()


async def test_a_list_whose_continue_token_is_compacted_is_requested_in_one_piece() -> None:
    # With its watch cache the server keeps snapshots of its own, and answers from those.
    async with _proxied_plane(cached=False) as (here, parts, _):
        async with anyio.create_task_group() as group:
            for number in range(SEVERAL_PARTS):
                group.start_soon(here.create, f"g{number:04}")
        gate = anyio.Event()
        late = LateRequest(Pause(until=gate))
        next_part = Match(verb="list", where=lambda call: "continue" in call.query, times=1)
        gauges = dict[str, Gauge]()

        async def ask() -> None:
            listed = await here.client.list(GAUGES)
            gauges.update((gauge.metadata.name, gauge) for gauge in listed.items)

        with here.proxy.inject(late, next_part) as injected:
            async with anyio.create_task_group() as group:
                group.start_soon(ask)
                await injected.struck.wait()
                await here.create("new")
                await parts.compact()
                gate.set()
        assert len(gauges) == SEVERAL_PARTS + 1
        assert "new" in gauges
        first, second, whole = (sorted(call.query) for call in here.list_calls("list"))
        assert (first, second, whole) == (["limit"], ["continue", "limit"], [])


async def test_every_allocation_is_served_although_etcd_compacts_undelivered_events() -> None:
    async with (
        ControlPlane.start() as plane,
        taken_apart(plane) as parts,
        parts.second_apiserver(watch_cache="false") as second,
        Pipe.before(place(second.plane.url)) as pipe,
        bare_estate(plane, Elsewhere(plane, f"https://{HOST}:{pipe.port}"), LARGE) as here,
    ):
        for _ in range(2):
            here.start(clock=SwiftClock(speed=PACE))
        await here.create_cluster()
        for number in range(0, ASKED, BETWEEN):
            for which in range(number, number + BETWEEN):
                await here.create_allocation(f"n{which}", count=1 + which % 3)
            await here.witness.until(here.witness.describe_unsettled)
            # Every watch begins anew, and what was written before that is compacted.
            pipe.cut_connections()
            await here.create_allocation(f"nn{number}")
            await parts.compact()
        await here.witness.until(here.witness.describe_unsettled)
        assert here.witness.clashes == []
        expired = [_count_expired(manager) for manager in here.managers.values()]
        assert all(expired), expired


def _count_expired(manager: Manager) -> float:
    """Return how often a watch for allocations was too old for the server."""
    labels = {"resource": f"{IP_ALLOCATION.plural}.{IP_ALLOCATION.group}", "reason": EXPIRED}
    name = "controller_watch_restarts_total"
    return manager.metrics.registry.get_sample_value(name, labels) or 0
