"""The check whether MetalLB has read our pool, by a watch that may show an older state."""

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

RANGE = "10.40.0.0-10.40.0.7"
HUGE = ("fd00::/64", "fd00:1::/120")
LARGEST = 2**63 - 1
"""The largest number that MetalLB can count."""


def _make_projection(*entries: str) -> Projection:
    """Return the projection of one allocation with these entries."""
    return Projection((ProjectedRanges(AllocationName("team-a-lb", "uid"), entries),), 1)


def _make_pool(status: Json | None, *entries: str) -> Json:
    """Return our IPAddressPool with a status, None for none; without entries it has RANGE."""
    meta = {"name": "default-pool", "namespace": "metallb-system", "resourceVersion": "1"}
    pool = {"metadata": meta, "spec": {"addresses": list(entries or (RANGE,))}}
    return pool if status is None else pool | {"status": status}


class CacheWatch:
    """A watch that shows the objects in a cache."""

    def __init__(self, cache: Cache[Any]) -> None:
        self._cache = cache

    def open(self) -> None:
        """Do nothing: the watch is always open."""

    def get(self, resource: Any, key: Key) -> Any:
        """Return the cached object."""
        return self._cache.get(key)


def _make_check(
    server: Server, clock: VirtualClock, cache: Cache[IPAddressPool]
) -> ProjectionCheck:
    """Return the check of a tenant's MetalLB, whose watch shows a cache."""
    memory = ProjectionCheckMemory()
    return ProjectionCheck(
        Client(server), "metallb-system", watched=CacheWatch(cache), clock=clock, memory=memory
    )


@pytest.mark.parametrize(
    "shown_status", [None, {"availableIPv4": 4}], ids=["nothing", "an old count"]
)
async def test_metallb_is_healthy_if_the_server_has_newer_counts_than_the_watch(
    shown_status: Json | None,
) -> None:
    clock = VirtualClock()
    server = Server(clock, (*TENANT_KINDS, "servicebgpstatuses"))
    server.add("ipaddresspools", _make_pool({"assignedIPv4": 3, "availableIPv4": 5}))
    cache = Cache(IP_ADDRESS_POOL)
    cache.replace([msgspec.convert(_make_pool(shown_status), IPAddressPool)], 1)
    check = _make_check(server, clock, cache)
    for _ in range(2):
        assert await check.read_health(_make_projection(RANGE)) == Health()
        await clock.advance(READING_GRACE_SECONDS)


async def test_no_request_is_sent_if_the_watch_shows_that_the_pool_was_read() -> None:
    clock = VirtualClock()
    server = Server(clock, TENANT_KINDS)
    cache = Cache(IP_ADDRESS_POOL)
    cache.replace([msgspec.convert(_make_pool({"availableIPv4": 8}), IPAddressPool)], 1)
    check = _make_check(server, clock, cache)
    assert await check.read_health(_make_projection(RANGE)) == Health()
    assert server.requests == []


@pytest.mark.parametrize(
    ("count", "is_read"),
    [(LARGEST, True), (LARGEST + 256 - 2**64, True), (256, False)],
    ids=["0.16.2 and newer", "older", "another pool"],
)
async def test_a_pool_larger_than_metallb_can_count_is_read_if_the_count_is_that_of_a_release(
    count: int, is_read: bool
) -> None:
    clock = VirtualClock()
    server = Server(clock, (*TENANT_KINDS, "servicebgpstatuses"))
    server.add("ipaddresspools", _make_pool({"availableIPv6": count}, *HUGE))
    check = _make_check(server, clock, Cache(IP_ADDRESS_POOL))
    assert (await check.read_health(_make_projection(*HUGE)) == Health()) is is_read
