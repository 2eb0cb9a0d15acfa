"""What becomes of requests for two families, on a real HTTP server: every row of the table.

Each test has a pool of its own, of eight addresses of IPv4 and, mostly, eight of IPv6.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any

import anyio
import pytest
import pytest_asyncio

from controller.client import Client
from controller.clock import SystemClock
from controller.conditions import find
from controller.config import connect
from controller.manager import Manager
from controller.meta import Key
from controller.options import ManagerOptions
from controller.transport import Transport
from envtest.plane import RunningControlPlane as Plane
from reconcilers.addressing import statusranges
from reconcilers.api import names
from reconcilers.api.crd import crds
from reconcilers.api.ipallocation import ALLOCATED, FAILED, IPAllocation
from reconcilers.api.networkpool import NetworkPool
from reconcilers.api.resources import IP_ALLOCATION, NETWORK_POOL
from reconcilers.cli.local.objects import NAMESPACE, delete
from reconcilers.configuration.settings import Settings
from reconcilers.reporting import dualstack
from reconcilers.reporting.conditions import READY
from reconcilers.wiring.controllers import add_ipallocations, add_networkpools
from reconcilers.wiring.shared import Shared
from tests.contract.conftest import administrator
from tests.edits import edit
from tests.polling import until
from tests.reconcilers.lab import OpenGate
from tests.servers import SERVERS, running

pytestmark = pytest.mark.asyncio(loop_scope="module")

HOME = names.DEFAULT_NAMESPACE
PREFER = {"ipFamilyPolicy": "PreferDualStack"}
REQUIRE = {"ipFamilyPolicy": "RequireDualStack"}
SIX = {"ipFamilies": ["IPv6"]}
FILLER: dict[str, Any] = {"count": 8}
_numbers = count(1)


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=SERVERS)
async def plane(request: pytest.FixtureRequest) -> AsyncIterator[Plane]:
    """A server with our kinds, one for all tests and each version."""
    async with running(request.param) as started:
        await started.install_crds(crds())
        yield started


class Lab:
    """A pool, and the controllers of pools and allocations at work on it."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.number = next(_numbers)
        self.pool = Key(HOME, f"lab-{self.number}")
        self.four, self.six = f"10.40.{self.number}.", f"fd00:40:{self.number}::"
        self.second = {"cidr": f"{self.six}/125"}

    async def offer(self, **spec: Any) -> None:
        """Make the pool, of IPv4 unless `spec` says more."""
        body = {"metadata": {"name": self.pool.name}, "spec": {"cidr": f"{self.four}0/29"} | spec}
        await self.client.create(NETWORK_POOL, HOME, body)

    async def ask(self, name: str, **spec: Any) -> IPAllocation:
        """Make a request for two addresses, and wait until it is served or refused."""
        whole = {
            "poolRef": {"name": self.pool.name},
            "tenantClusterRef": {"name": "a", "namespace": "team"},
            "type": "loadbalancer",
            "count": 2,
        } | spec
        body = {"metadata": {"name": f"{self.pool.name}-{name}"}, "spec": whole}
        await self.client.create(IP_ALLOCATION, HOME, body)
        return await self.until(name, ALLOCATED, FAILED)

    async def until(self, name: str, *phases: str) -> IPAllocation:
        """Wait until a request is in one of these phases."""
        key = Key(HOME, f"{self.pool.name}-{name}")
        return await until(
            lambda: self.client.get(IP_ALLOCATION, key),
            lambda allocation: allocation.status.phase in phases,
        )

    async def wait_until_counted(self, four: int, six: int) -> NetworkPool:
        """Wait until the pool counts so many addresses of each family as allocated."""

        def counts(pool: NetworkPool) -> bool:
            second = pool.status.secondary
            return (pool.status.allocated, second and second.allocated) == (four, six)

        return await until(lambda: self.client.get(NETWORK_POOL, self.pool), counts)

    async def give_back(self, name: str) -> None:
        """Delete a request."""
        await delete(self.client, IP_ALLOCATION, Key(HOME, f"{self.pool.name}-{name}"))

    async def add_second(self) -> None:
        """Give the pool its second family."""
        change = {"spec": {"secondary": self.second}}
        await edit(self.client, NETWORK_POOL, key=self.pool, change=change)

    def offsets(self, allocation: IPAllocation) -> list[str]:
        """Return the ranges that an allocation holds, by family and without the pool's prefix."""
        texts = [span.text for span in statusranges.list_held_ranges(allocation)]
        return [span.replace(self.six, "6:").replace(self.four, "4:") for span in texts]


@asynccontextmanager
async def lab(plane: Plane, folder: Path) -> AsyncIterator[Lab]:
    """Run the controllers of NetworkPools and of IPAllocations."""
    transport: Transport = await connect(plane.write_kubeconfig(folder / "kubeconfig"))
    client, clock = Client(transport), SystemClock()
    if not any(
        namespace.metadata.name == HOME for namespace in (await client.list(NAMESPACE)).items
    ):
        await client.create(NAMESPACE, "", {"metadata": {"name": HOME}})
    manager = Manager(transport, clock=clock, options=ManagerOptions())
    shared = Shared.from_manager(manager, clock, Settings())
    add_networkpools(shared)
    add_ipallocations(shared, OpenGate())
    async with anyio.create_task_group() as group:
        group.start_soon(manager.run)
        yield Lab(client)
        group.cancel_scope.cancel()
    await transport.aclose()


def said(allocation: IPAllocation, kind: str = READY) -> tuple[str, str]:
    """Return the status and the reason of a condition."""
    condition = find(allocation.status.conditions, kind)
    assert condition is not None
    return condition.status, condition.reason


@pytest.mark.parametrize(
    ("spec", "held_ranges", "families"),
    [
        ({}, ["4:0/31"], []),
        ({"ipFamilyPolicy": "SingleStack"}, ["4:0/31"], ["IPv4"]),
        (SIX, ["6:/127"], ["IPv6"]),
        (PREFER, ["4:0/31", "6:/127"], ["IPv4", "IPv6"]),
        (PREFER | SIX, ["6:/127", "4:0/31"], ["IPv6", "IPv4"]),
        (REQUIRE, ["4:0/31", "6:/127"], ["IPv4", "IPv6"]),
        (REQUIRE | SIX, ["6:/127", "4:0/31"], ["IPv6", "IPv4"]),
        (REQUIRE | {"ipFamilies": ["IPv6", "IPv4"]}, ["6:/127", "4:0/31"], ["IPv6", "IPv4"]),
        (SIX | {"prefixLength": 126, "count": None}, ["6:/126"], ["IPv6"]),
    ],
)
async def test_a_pool_of_two_families_gives_what_is_asked_for_in_that_order(
    plane: Plane, tmp_path: Path, spec: dict[str, Any], held_ranges: list[str], families: list[str]
) -> None:
    async with lab(plane, tmp_path) as here:
        await here.offer(secondary=here.second)
        allocation = await here.ask("a", **spec)
    assert here.offsets(allocation) == held_ranges
    assert [family.family for family in allocation.status.families] == families
    assert (
        allocation.status.startAddress == statusranges.list_held_ranges(allocation)[0].start_text
    )
    if spec.get("ipFamilyPolicy") in {"PreferDualStack", "RequireDualStack"}:
        assert said(allocation, dualstack.DUAL_STACK) == ("True", "DualStack")
    else:
        assert find(allocation.status.conditions, dualstack.DUAL_STACK) is None


async def test_preferring_both_a_pool_of_one_family_serves_that(
    plane: Plane, tmp_path: Path
) -> None:
    async with lab(plane, tmp_path) as here:
        await here.offer()
        allocation = await here.ask("a", **PREFER)
    assert here.offsets(allocation) == ["4:0/31"]
    assert said(allocation, dualstack.DUAL_STACK) == ("False", "PoolSingleStack")


async def test_preferring_both_the_first_is_served_where_the_second_is_full_and_stays_alone(
    plane: Plane, tmp_path: Path
) -> None:
    async with lab(plane, tmp_path) as here:
        await here.offer(secondary=here.second)
        await here.ask("filler", **SIX | FILLER)
        allocation = await here.ask("a", **PREFER)
        assert here.offsets(allocation) == ["4:0/31"]
        assert said(allocation, dualstack.DUAL_STACK) == ("False", "PoolExhausted")
        await here.give_back("filler")
        await here.wait_until_counted(2, 0)
        later = await here.ask("b", **PREFER)
        assert here.offsets(later) == ["4:2/31", "6:/127"]
        assert here.offsets(await here.until("a", ALLOCATED)) == ["4:0/31"]


async def test_preferring_both_nothing_is_given_where_the_first_is_full_until_it_has_room(
    plane: Plane, tmp_path: Path
) -> None:
    async with lab(plane, tmp_path) as here:
        await here.offer(secondary=here.second)
        await here.ask("filler", **FILLER)
        allocation = await here.ask("a", **PREFER)
        assert said(allocation) == ("False", "PoolExhausted")
        ready = find(allocation.status.conditions, READY)
        assert ready is not None
        assert ready.message.startswith("IPv4: pool exhausted")
        assert here.offsets(allocation) == []
        other = await here.ask("b", **PREFER | SIX)
        assert here.offsets(other) == ["6:/127"], "IPv6 is its first family"
        assert said(other, dualstack.DUAL_STACK) == ("False", "PoolExhausted")
        await here.give_back("filler")
        served_allocation = await here.until("a", ALLOCATED)
        assert here.offsets(served_allocation) == ["4:0/31", "6:2/127"]


@pytest.mark.parametrize(("full", "word"), [(SIX, "IPv6"), ({}, "IPv4")])
async def test_requiring_both_nothing_is_taken_of_one_where_the_other_is_full(
    plane: Plane, tmp_path: Path, full: dict[str, Any], word: str
) -> None:
    async with lab(plane, tmp_path) as here:
        await here.offer(secondary=here.second)
        await here.ask("filler", **full | FILLER)
        allocation = await here.ask("a", **REQUIRE)
        assert said(allocation) == ("False", "PoolExhausted")
        ready = find(allocation.status.conditions, READY)
        assert ready is not None
        assert ready.message.startswith(f"{word}: pool exhausted")
        assert here.offsets(allocation) == []
        await here.wait_until_counted(*((0, 8) if full else (8, 0)))
        await here.give_back("filler")
        both = await here.until("a", ALLOCATED)
        assert here.offsets(both) == ["4:0/31", "6:/127"]


@pytest.mark.parametrize(
    ("spec", "reason", "message"),
    [
        (REQUIRE, "PoolNotDualStack", "not configured for dual-stack allocations"),
        (REQUIRE | SIX, "PoolNotDualStack", "not configured for dual-stack allocations"),
        (SIX, "FamilyNotConfigured", 'spec.ipFamilies[0]: Invalid value: "IPv6": not configured'),
        (PREFER | SIX, "FamilyNotConfigured", "spec.ipFamilies[0]"),
        (PREFER | {"ipFamilies": ["IPv4", "IPv6"]}, "FamilyNotConfigured", "spec.ipFamilies[1]"),
    ],
)
async def test_a_family_that_the_pool_lacks_is_waited_for_until_it_has_it(
    plane: Plane, tmp_path: Path, spec: dict[str, Any], reason: str, message: str
) -> None:
    async with lab(plane, tmp_path) as here:
        await here.offer()
        kept = await here.ask("kept")
        allocation = await here.ask("a", **spec)
        assert said(allocation) == ("False", reason)
        ready = find(allocation.status.conditions, READY)
        assert ready is not None
        assert message in ready.message
        assert here.offsets(allocation) == []
        await here.add_second()
        served_allocation = await here.until("a", ALLOCATED)
        assert set(here.offsets(served_allocation)) <= {"4:2/31", "6:/127"}
        assert "6:/127" in here.offsets(served_allocation)
        assert await here.until("kept", ALLOCATED) == kept, "it is left as it was"


async def test_the_columns_show_the_second_family(plane: Plane, tmp_path: Path) -> None:
    async with lab(plane, tmp_path) as here:
        await here.offer(secondary=here.second)
        await here.ask("a", **REQUIRE)
        pool = await here.wait_until_counted(2, 2)
    allocation = await _row(plane, "ipallocations", f"{pool.metadata.name}-a")
    assert (allocation["Range"], allocation["2nd Range"]) == (
        f"{here.four}0/31",
        f"{here.six}/127",
    )
    row = await _row(plane, "networkpools", pool.metadata.name)
    assert [row[f"2nd {column}"] for column in ("Available", "Used %")] == [6, 25]
    assert row["Secondary"] == f"{here.six}/125"


async def _row(plane: Plane, plural: str, name: str) -> dict[str, Any]:
    """Return an object's row in the table of its kind, as kubectl asks for it."""
    table = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
    path = f"/apis/{names.API_VERSION}/namespaces/{HOME}/{plural}/{name}"
    async with administrator(plane) as http:
        body = (await http.get(path, headers=table)).json()
    heads = [column_definition["name"] for column_definition in body["columnDefinitions"]]
    return dict(zip(heads, body["rows"][0]["cells"], strict=True))


async def test_both_families_are_pinned_and_given_back_together(
    plane: Plane, tmp_path: Path
) -> None:
    async with lab(plane, tmp_path) as here:
        await here.offer(secondary=here.second)
        pins = [
            {"startAddress": f"{here.six}5", "endAddress": f"{here.six}6"},
            {"startAddress": f"{here.four}3", "endAddress": f"{here.four}3"},
        ]
        allocation = await here.ask("a", **REQUIRE, pinnedRanges=pins)
        assert here.offsets(allocation) == ["6:5-6:6", "4:3/32"]
        pool = await here.wait_until_counted(1, 2)
        assert pool.status.allocationCount == 1
        await here.give_back("a")
        await here.wait_until_counted(0, 0)


async def test_a_pinned_range_and_as_many_addresses_of_the_other_family(
    plane: Plane, tmp_path: Path
) -> None:
    async with lab(plane, tmp_path) as here:
        await here.offer(secondary=here.second)
        pin = {"startAddress": f"{here.four}4", "endAddress": f"{here.four}6"}
        allocation = await here.ask("a", **REQUIRE, pinnedRange=pin, count=None)
    assert here.offsets(allocation) == ["4:4-4:6", "6:-6:2"]
