"""Requests for two families on a real HTTP server: a test for each row of the table in the docs.

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
from controller.conditions import find_condition
from controller.config import connect
from controller.manager import Manager
from controller.meta import Key
from controller.options import ManagerOptions
from controller.transport import Transport
from envtest.plane import RunningControlPlane as Plane
from reconcilers.addressing import statusranges
from reconcilers.api import names
from reconcilers.api.crd import build_crds
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
        await started.install_crds(build_crds())
        yield started


class PoolLab:
    """A pool of a test and its allocations; the methods create and wait for them."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.number = next(_numbers)
        self.pool = Key(HOME, f"lab-{self.number}")
        self.ipv4_prefix, self.ipv6_prefix = f"10.40.{self.number}.", f"fd00:40:{self.number}::"
        self.secondary_spec = {"cidr": f"{self.ipv6_prefix}/125"}

    async def create_pool(self, **spec: Any) -> None:
        """Create the pool, of IPv4 unless `spec` has more."""
        body = {
            "metadata": {"name": self.pool.name},
            "spec": {"cidr": f"{self.ipv4_prefix}0/29"} | spec,
        }
        await self.client.create(NETWORK_POOL, HOME, body)

    async def create_allocation(self, name: str, **spec: Any) -> IPAllocation:
        """Create an allocation of two addresses, and wait until it is Allocated or Failed."""
        whole = {
            "poolRef": {"name": self.pool.name},
            "tenantClusterRef": {"name": "a", "namespace": "team"},
            "type": "loadbalancer",
            "count": 2,
        } | spec
        body = {"metadata": {"name": f"{self.pool.name}-{name}"}, "spec": whole}
        await self.client.create(IP_ALLOCATION, HOME, body)
        return await self.wait_for_phase(name, ALLOCATED, FAILED)

    async def wait_for_phase(self, name: str, *phases: str) -> IPAllocation:
        """Wait until an allocation is in one of these phases; return it."""
        key = Key(HOME, f"{self.pool.name}-{name}")
        return await until(
            lambda: self.client.get(IP_ALLOCATION, key),
            lambda allocation: allocation.status.phase in phases,
        )

    async def wait_until_counted(self, four: int, six: int) -> NetworkPool:
        """Wait until the pool counts this many allocated addresses of IPv4 and of IPv6."""

        def counts(pool: NetworkPool) -> bool:
            second = pool.status.secondary
            return (pool.status.allocated, second and second.allocated) == (four, six)

        return await until(lambda: self.client.get(NETWORK_POOL, self.pool), counts)

    async def delete_allocation(self, name: str) -> None:
        """Delete an allocation."""
        await delete(self.client, IP_ALLOCATION, Key(HOME, f"{self.pool.name}-{name}"))

    async def add_second_family(self) -> None:
        """Give the pool its second family."""
        change = {"spec": {"secondary": self.secondary_spec}}
        await edit(self.client, NETWORK_POOL, key=self.pool, change=change)

    def list_short_ranges(self, allocation: IPAllocation) -> list[str]:
        """Return the ranges of an allocation as texts, with short names for the pool's prefixes.

        `4:0/31` has the first two IPv4 addresses, `6:/127` the first two IPv6 addresses.
        """
        return [
            span.text.replace(self.ipv6_prefix, "6:").replace(self.ipv4_prefix, "4:")
            for span in statusranges.list_held_ranges(allocation)
        ]


@asynccontextmanager
async def run_pool_lab(plane: Plane, folder: Path) -> AsyncIterator[PoolLab]:
    """Run the controllers of NetworkPools and of IPAllocations; yield a pool to create."""
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
        yield PoolLab(client)
        group.cancel_scope.cancel()
    await transport.aclose()


def get_condition_status(allocation: IPAllocation, kind: str = READY) -> tuple[str, str]:
    """Return the status and the reason of a condition of an allocation."""
    condition = find_condition(allocation.status.conditions, kind)
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
    async with run_pool_lab(plane, tmp_path) as pool_lab:
        await pool_lab.create_pool(secondary=pool_lab.secondary_spec)
        allocation = await pool_lab.create_allocation("a", **spec)
    assert pool_lab.list_short_ranges(allocation) == held_ranges
    assert [family.family for family in allocation.status.families] == families
    assert (
        allocation.status.startAddress == statusranges.list_held_ranges(allocation)[0].start_text
    )
    if spec.get("ipFamilyPolicy") in {"PreferDualStack", "RequireDualStack"}:
        assert get_condition_status(allocation, dualstack.DUAL_STACK) == ("True", "DualStack")
    else:
        assert find_condition(allocation.status.conditions, dualstack.DUAL_STACK) is None


async def test_with_prefer_dual_stack_a_pool_of_one_family_serves_that_family(
    plane: Plane, tmp_path: Path
) -> None:
    async with run_pool_lab(plane, tmp_path) as pool_lab:
        await pool_lab.create_pool()
        allocation = await pool_lab.create_allocation("a", **PREFER)
    assert pool_lab.list_short_ranges(allocation) == ["4:0/31"]
    assert get_condition_status(allocation, dualstack.DUAL_STACK) == ("False", "PoolSingleStack")


async def test_with_prefer_dual_stack_a_full_second_family_leaves_the_first_alone_for_good(
    plane: Plane, tmp_path: Path
) -> None:
    async with run_pool_lab(plane, tmp_path) as pool_lab:
        await pool_lab.create_pool(secondary=pool_lab.secondary_spec)
        await pool_lab.create_allocation("filler", **SIX | FILLER)
        allocation = await pool_lab.create_allocation("a", **PREFER)
        assert pool_lab.list_short_ranges(allocation) == ["4:0/31"]
        assert get_condition_status(allocation, dualstack.DUAL_STACK) == ("False", "PoolExhausted")
        await pool_lab.delete_allocation("filler")
        await pool_lab.wait_until_counted(2, 0)
        later = await pool_lab.create_allocation("b", **PREFER)
        assert pool_lab.list_short_ranges(later) == ["4:2/31", "6:/127"]
        assert pool_lab.list_short_ranges(await pool_lab.wait_for_phase("a", ALLOCATED)) == [
            "4:0/31"
        ]


async def test_with_prefer_dual_stack_a_full_first_family_is_waited_for(
    plane: Plane, tmp_path: Path
) -> None:
    async with run_pool_lab(plane, tmp_path) as pool_lab:
        await pool_lab.create_pool(secondary=pool_lab.secondary_spec)
        await pool_lab.create_allocation("filler", **FILLER)
        allocation = await pool_lab.create_allocation("a", **PREFER)
        assert get_condition_status(allocation) == ("False", "PoolExhausted")
        ready = find_condition(allocation.status.conditions, READY)
        assert ready is not None
        assert ready.message.startswith("IPv4: pool exhausted")
        assert pool_lab.list_short_ranges(allocation) == []
        other = await pool_lab.create_allocation("b", **PREFER | SIX)
        assert pool_lab.list_short_ranges(other) == ["6:/127"], "IPv6 is its first family"
        assert get_condition_status(other, dualstack.DUAL_STACK) == ("False", "PoolExhausted")
        await pool_lab.delete_allocation("filler")
        served_allocation = await pool_lab.wait_for_phase("a", ALLOCATED)
        assert pool_lab.list_short_ranges(served_allocation) == ["4:0/31", "6:2/127"]


@pytest.mark.parametrize(("full", "word"), [(SIX, "IPv6"), ({}, "IPv4")])
async def test_with_require_dual_stack_no_family_is_allocated_while_the_other_is_full(
    plane: Plane, tmp_path: Path, full: dict[str, Any], word: str
) -> None:
    async with run_pool_lab(plane, tmp_path) as pool_lab:
        await pool_lab.create_pool(secondary=pool_lab.secondary_spec)
        await pool_lab.create_allocation("filler", **full | FILLER)
        allocation = await pool_lab.create_allocation("a", **REQUIRE)
        assert get_condition_status(allocation) == ("False", "PoolExhausted")
        ready = find_condition(allocation.status.conditions, READY)
        assert ready is not None
        assert ready.message.startswith(f"{word}: pool exhausted")
        assert pool_lab.list_short_ranges(allocation) == []
        await pool_lab.wait_until_counted(*((0, 8) if full else (8, 0)))
        await pool_lab.delete_allocation("filler")
        both = await pool_lab.wait_for_phase("a", ALLOCATED)
        assert pool_lab.list_short_ranges(both) == ["4:0/31", "6:/127"]


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
async def test_an_allocation_waits_for_a_family_until_the_pool_has_it(
    plane: Plane, tmp_path: Path, spec: dict[str, Any], reason: str, message: str
) -> None:
    async with run_pool_lab(plane, tmp_path) as pool_lab:
        await pool_lab.create_pool()
        kept = await pool_lab.create_allocation("kept")
        allocation = await pool_lab.create_allocation("a", **spec)
        assert get_condition_status(allocation) == ("False", reason)
        ready = find_condition(allocation.status.conditions, READY)
        assert ready is not None
        assert message in ready.message
        assert pool_lab.list_short_ranges(allocation) == []
        await pool_lab.add_second_family()
        served_allocation = await pool_lab.wait_for_phase("a", ALLOCATED)
        assert set(pool_lab.list_short_ranges(served_allocation)) <= {"4:2/31", "6:/127"}
        assert "6:/127" in pool_lab.list_short_ranges(served_allocation)
        assert await pool_lab.wait_for_phase("kept", ALLOCATED) == kept, "it is left as it was"


async def test_the_columns_show_the_second_family(plane: Plane, tmp_path: Path) -> None:
    async with run_pool_lab(plane, tmp_path) as pool_lab:
        await pool_lab.create_pool(secondary=pool_lab.secondary_spec)
        await pool_lab.create_allocation("a", **REQUIRE)
        pool = await pool_lab.wait_until_counted(2, 2)
    allocation = await _row(plane, "ipallocations", f"{pool.metadata.name}-a")
    assert (allocation["Range"], allocation["2nd Range"]) == (
        f"{pool_lab.ipv4_prefix}0/31",
        f"{pool_lab.ipv6_prefix}/127",
    )
    row = await _row(plane, "networkpools", pool.metadata.name)
    assert [row[f"2nd {column}"] for column in ("Available", "Used %")] == [6, 25]
    assert row["Secondary"] == f"{pool_lab.ipv6_prefix}/125"


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
    async with run_pool_lab(plane, tmp_path) as pool_lab:
        await pool_lab.create_pool(secondary=pool_lab.secondary_spec)
        pins = [
            {"startAddress": f"{pool_lab.ipv6_prefix}5", "endAddress": f"{pool_lab.ipv6_prefix}6"},
            {"startAddress": f"{pool_lab.ipv4_prefix}3", "endAddress": f"{pool_lab.ipv4_prefix}3"},
        ]
        allocation = await pool_lab.create_allocation("a", **REQUIRE, pinnedRanges=pins)
        assert pool_lab.list_short_ranges(allocation) == ["6:5-6:6", "4:3/32"]
        pool = await pool_lab.wait_until_counted(1, 2)
        assert pool.status.allocationCount == 1
        await pool_lab.delete_allocation("a")
        await pool_lab.wait_until_counted(0, 0)


async def test_a_pinned_range_and_as_many_addresses_of_the_other_family(
    plane: Plane, tmp_path: Path
) -> None:
    async with run_pool_lab(plane, tmp_path) as pool_lab:
        await pool_lab.create_pool(secondary=pool_lab.secondary_spec)
        pin = {
            "startAddress": f"{pool_lab.ipv4_prefix}4",
            "endAddress": f"{pool_lab.ipv4_prefix}6",
        }
        allocation = await pool_lab.create_allocation("a", **REQUIRE, pinnedRange=pin, count=None)
    assert pool_lab.list_short_ranges(allocation) == ["4:4-4:6", "6:-6:2"]
