"""Whether MetalLB has read our pool, where the watch of it shows an older state."""

from typing import Any

import msgspec
import pytest

from controller.cache import Cache
from controller.client import Client
from controller.meta import Key
from reconcilers.loadbalancers.metallb.kinds import IP_ADDRESS_POOL, IPAddressPool
from reconcilers.loadbalancers.metallb.reading import ProjectionCheck, ProjectionCheckMemory
from reconcilers.loadbalancers.port import (
    READING_GRACE_SECONDS,
    AllocationName,
    Health,
    ProjectedRanges,
    Projection,
)
from tests.clock import VirtualClock
from tests.reconcilers.lab import TENANT_KINDS
from tests.reconcilers.server import Json, Server

HELD = "10.40.0.0-10.40.0.7"


HUGE = ("fd00::/64", "fd00:1::/120")
LARGEST = 2**63 - 1


def _make_projection(*entries: str) -> Projection:
    return Projection((ProjectedRanges(AllocationName("team-a-lb", "uid"), entries),), 1)


def _pool(status: Json | None, *entries: str) -> Json:
    meta = {"name": "default-pool", "namespace": "metallb-system", "resourceVersion": "1"}
    pool = {"metadata": meta, "spec": {"addresses": list(entries or (HELD,))}}
    return pool if status is None else pool | {"status": status}


class Watched:
    """A watch that shows what is in a cache."""

    def __init__(self, cache: Cache[Any]) -> None:
        self._cache = cache

    def open(self) -> None:
        """It is open."""

    def get(self, resource: Any, key: Key) -> Any:
        """Return the cached object."""
        return self._cache.get(key)


def _reading(server: Server, clock: VirtualClock, cache: Cache[IPAddressPool]) -> ProjectionCheck:
    memory = ProjectionCheckMemory()
    return ProjectionCheck(
        Client(server), "metallb-system", watched=Watched(cache), clock=clock, memory=memory
    )


@pytest.mark.parametrize(
    "shown_status", [None, {"availableIPv4": 4}], ids=["nothing", "an old count"]
)
async def test_a_watch_that_hears_nothing_new_does_not_make_metallb_look_down(
    shown_status: Json | None,
) -> None:
    clock = VirtualClock()
    server = Server(clock, (*TENANT_KINDS, "servicebgpstatuses"))
    server.add("ipaddresspools", _pool({"assignedIPv4": 3, "availableIPv4": 5}))
    cache = Cache(IP_ADDRESS_POOL)
    cache.replace([msgspec.convert(_pool(shown_status), IPAddressPool)], 1)
    reading = _reading(server, clock, cache)
    for _ in range(2):
        assert await reading.read_health(_make_projection(HELD)) == Health()
        await clock.advance(READING_GRACE_SECONDS)


async def test_what_the_watch_shows_as_read_costs_no_request() -> None:
    clock = VirtualClock()
    server = Server(clock, TENANT_KINDS)
    cache = Cache(IP_ADDRESS_POOL)
    cache.replace([msgspec.convert(_pool({"availableIPv4": 8}), IPAddressPool)], 1)
    reading = _reading(server, clock, cache)
    assert await reading.read_health(_make_projection(HELD)) == Health()
    assert server.requests == []


@pytest.mark.parametrize(
    ("count", "is_read"),
    [(LARGEST, True), (LARGEST + 256 - 2**64, True), (256, False)],
    ids=["0.16.2 and newer", "older", "another pool"],
)
async def test_a_pool_larger_than_metallb_can_count_is_read(count: int, is_read: bool) -> None:
    clock = VirtualClock()
    server = Server(clock, (*TENANT_KINDS, "servicebgpstatuses"))
    server.add("ipaddresspools", _pool({"availableIPv6": count}, *HUGE))
    reading = _reading(server, clock, Cache(IP_ADDRESS_POOL))
    assert (await reading.read_health(_make_projection(*HUGE)) == Health()) is is_read
