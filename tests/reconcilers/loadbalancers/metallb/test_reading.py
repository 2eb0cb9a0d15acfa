"""Whether MetalLB has read our pool, where the watch of it shows an older state."""

import msgspec
import pytest

from controller.cache import Cache
from controller.client import Client
from controller.meta import Key
from reconcilers.api.resources import IP_ADDRESS_POOL, IPAddressPool
from reconcilers.loadbalancers.metallb.projection import Projection
from reconcilers.loadbalancers.metallb.reading import MOMENT, Reading, ReadingMemory
from reconcilers.settings import TenantSettings
from tests.clock import VirtualClock
from tests.reconcilers import make
from tests.reconcilers.lab import TENANT_KINDS
from tests.reconcilers.server import Json, Server

HELD = "10.40.0.0-10.40.0.7"
POOL = Key("metallb-system", "default-pool")


def _pool(status: Json | None) -> Json:
    meta = {"name": "default-pool", "namespace": "metallb-system", "resourceVersion": "1"}
    pool = {"metadata": meta, "spec": {"addresses": [HELD]}}
    return pool if status is None else pool | {"status": status}


@pytest.mark.parametrize("shown", [None, {"availableIPv4": 4}], ids=["nothing", "an old count"])
async def test_a_watch_that_hears_nothing_new_does_not_make_metallb_look_down(
    shown: Json | None,
) -> None:
    clock, tenant = VirtualClock(), make.tenant(status={"phase": "Ready"})
    server = Server(clock, (*TENANT_KINDS, "servicebgpstatuses"))
    server.add("ipaddresspools", _pool({"assignedIPv4": 3, "availableIPv4": 5}))
    cache = Cache(IP_ADDRESS_POOL)
    cache.replace([msgspec.convert(_pool(shown), IPAddressPool)], 1)
    reading = Reading(lambda _: cache.get(POOL), clock, TenantSettings())
    memory = ReadingMemory()
    for _ in range(2):
        problem = await reading.problem(Client(server), tenant, Projection((HELD,), 1), memory)
        assert problem == ""
        await clock.advance(MOMENT)


async def test_what_the_watch_shows_as_read_costs_no_request() -> None:
    clock, tenant = VirtualClock(), make.tenant(status={"phase": "Ready"})
    server = Server(clock, TENANT_KINDS)
    cache = Cache(IP_ADDRESS_POOL)
    cache.replace([msgspec.convert(_pool({"availableIPv4": 8}), IPAddressPool)], 1)
    reading = Reading(lambda _: cache.get(POOL), clock, TenantSettings())
    wanted, memory = Projection((HELD,), 1), ReadingMemory()
    assert await reading.problem(Client(server), tenant, wanted, memory) == ""
    assert server.requests == []
