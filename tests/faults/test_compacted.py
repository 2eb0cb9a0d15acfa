"""etcd forgets what has been: whoever has not seen it yet is told so, and looks anew.

That is real compaction, through etcd, seen through kube-apiserver with its watch cache, which
tells 410 of its own accord, and without, where it is etcd that says so.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest

from controller import Change, Client
from controller.meta import Version
from envtest import ControlPlane
from envtest.faults import LateRequest, Pause, Proxy
from tests.envtest.samples import crd
from tests.faults.estate import LARGE, PACE, SwiftClock, bare_estate
from tests.faults.parts import Elsewhere, Parts, SecondServer, place, taken_apart
from tests.faults.pipes import HOST, Pipe
from tests.faults.world import (
    GAUGES,
    PATIENCE,
    WATCH,
    Gauge,
    World,
    observed,
    transport_to,
)

pytestmark = pytest.mark.slow

CACHED = pytest.mark.parametrize("cached", [True, False], ids=["watch cache", "etcd"])
ASKED, BETWEEN = 60, 6
MANY = 400
"""So many events that etcd keeps them no longer for a server that does not take them."""


@asynccontextmanager
async def _world(*, cached: bool) -> AsyncIterator[tuple[World, Parts, SecondServer]]:
    """Watch through a second API server, so that it can be restarted and frozen."""
    async with (
        ControlPlane.start() as plane,
        taken_apart(plane) as parts,
        parts.second_apiserver(watch_cache=str(cached).lower()) as second,
        Proxy.before(second.plane) as proxy,
    ):
        await plane.install_crds([crd()])
        await second.plane.install_crds([crd()])
        async with transport_to(plane) as direct, transport_to(proxy) as through:
            yield World(plane, proxy, Client(direct), Client(through), through), parts, second


def _told(change: Change[Gauge]) -> str:
    old, new = (one.metadata.name if one else "-" for one in (change.old, change.new))
    return f"{old} {new}{' unknown' if change.final_state_unknown else ''}"


@CACHED
async def test_a_watch_cannot_begin_where_etcd_has_forgotten_and_a_list_tells_the_rest(
    cached: bool,
) -> None:
    async with _world(cached=cached) as (here, parts, second):
        gone = await here.create("gone")
        await here.create("stays")
        gate = anyio.Event()
        late = LateRequest(Pause(until=gate))
        with here.proxy.inject(late, WATCH):
            async with observed(here) as seen:
                await here.proxy.calls.wait(1, lambda call: call.verb == "watch")
                await here.delete(gone)
                await here.create("new")
                await parts.compact()
                if cached:
                    await second.restart()  # its cache would have known
                gate.set()
                await seen.wait(4)
                assert seen.restarts()["expired"] == 1
            assert sorted(_told(change) for change in seen.changes[2:]) == [
                "- new",
                "gone - unknown",
            ]
            assert here.revisions("list") == ["0", None]


@CACHED
async def test_a_watch_that_etcd_has_left_behind_ends_and_nothing_is_missed(cached: bool) -> None:
    async with _world(cached=cached) as (here, parts, second):
        gone, busy = await here.create("gone"), await here.create("busy")
        async with observed(here) as seen:
            await here.proxy.calls.wait(1, lambda call: call.verb == "watch")
            with second.frozen():
                await here.delete(gone)
                for count in range(MANY):
                    patch = {"spec": {"count": count}}
                    busy = await here.direct.patch(GAUGES, Version.from_object(busy), patch)
                await parts.compact()
            with anyio.fail_after(PATIENCE):
                while seen.informer.cache.get(busy.metadata.key) != busy:
                    await seen.wait(len(seen.changes) + 1)
            assert seen.names == ["busy"]
            assert [one.old for one in seen.changes if one.new is None] == [gone]


async def test_everybody_is_served_though_etcd_forgets_all_the_time() -> None:
    async with (
        ControlPlane.start() as plane,
        taken_apart(plane) as parts,
        parts.second_apiserver(watch_cache="false") as second,
        Pipe.before(place(second.plane.url)) as pipe,
        bare_estate(plane, Elsewhere(plane, f"https://{HOST}:{pipe.port}"), LARGE) as here,
    ):
        for _ in range(2):
            here.start(clock=SwiftClock(speed=PACE))
        await here.found()
        for number in range(ASKED):
            await here.ask(f"n{number}", count=1 + number % 3)
            if number % BETWEEN == 0:
                # Everybody's watch begins anew, and what came before that is forgotten.
                pipe.cut()
                await parts.compact()
        await here.witness.until(here.witness.unsettled)
        assert here.witness.clashes == []
