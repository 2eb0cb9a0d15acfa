"""An allocation that cannot be decoded may hold any range of its pool, and of no other."""

from typing import Any

import pytest

from controller.codec import DecodeFailure
from controller.meta import Key
from reconcilers.api import names
from reconcilers.networkpool.unreadable import describe_unreadable_allocations
from tests.reconcilers import make
from tests.reconcilers.platform import Platform


def _make_unreadable(spec: Any, name: str = "odd") -> dict[str, Any]:
    """Return an allocation that cannot be decoded, because its spec is invalid."""
    return {"metadata": {"name": name, "namespace": make.NAMESPACE}, "spec": spec}


NAMES_LAB = {"poolRef": {"name": "lab"}, "count": "many"}
WITHOUT_TENANT = {"poolRef": 5, "count": "many"}


def _platform() -> Platform:
    platform = Platform()
    platform.server.add("networkpools", make.pool())
    platform.server.add("networkpools", make.pool("other", cidr="10.50.0.0/24"))
    platform.server.add("networkpools", make.pool("far", cidr="10.60.0.0/24", namespace="far"))
    return platform


async def _find_served_pools(platform: Platform) -> dict[str, bool]:
    """Return the pools that serve a request that comes now."""
    expected = {"lab": make.NAMESPACE, "other": make.NAMESPACE, "far": "far"}
    for pool, namespace in expected.items():
        asks = make.allocation(f"asks-{pool}", of=pool, namespace=namespace)
        platform.server.add("ipallocations", asks)
    await platform.clock.advance(1)
    return {
        pool: platform.phase("ipallocations", f"asks-{pool}", namespace) == "Allocated"
        for pool, namespace in expected.items()
    }


@pytest.mark.parametrize("early", [True, False], ids=["in the list", "in the watch"])
@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (NAMES_LAB, {"lab": False, "other": True, "far": True}),
        (WITHOUT_TENANT, {"lab": False, "other": False, "far": True}),
    ],
    ids=["it names its pool", "its pool cannot be read"],
)
async def test_an_unreadable_allocation_stops_the_pools_that_it_may_concern(
    spec: Any, expected: dict[str, bool], early: bool
) -> None:
    platform = _platform()
    if early:
        platform.server.add("ipallocations", _make_unreadable(spec))
    async with platform.running():
        platform.server.add("ipallocations", _make_unreadable(spec))
        await platform.clock.advance(1)
        assert await _find_served_pools(platform) == expected
        conditions = platform.server.see("networkpools", "lab")["status"]["conditions"]
        ready = next(c for c in conditions if c["type"] == "Ready")
        assert (ready["reason"], "odd" in ready["message"]) == ("UnreadableAllocation", True)


async def test_a_repaired_allocation_lets_its_pool_go_on() -> None:
    platform = _platform()
    platform.server.add("ipallocations", _make_unreadable(NAMES_LAB))
    async with platform.running():
        assert not (await _find_served_pools(platform))["lab"]
        platform.server.vanish("ipallocations", "odd")
        await platform.clock.advance(61)
        assert platform.phase("ipallocations", "asks-lab") == "Allocated"


async def test_a_new_pool_is_not_fenced_past_an_allocation_that_may_be_its_own() -> None:
    platform = Platform()
    platform.server.add("networkpools", make.pool(memory=None))
    platform.server.add("ipallocations", _make_unreadable(NAMES_LAB))
    async with platform.running():
        await platform.clock.advance(5)
        status = platform.server.see("networkpools", "lab")["status"]
        assert not status.get("journalOf")


def test_an_unreadable_allocation_without_namespace_concerns_every_pool() -> None:
    assert describe_unreadable_allocations(
        {Key("", "item 2"): DecodeFailure("no metadata")}, make.key("lab")
    ) == ("item 2",)


async def test_a_deleted_unreadable_allocation_keeps_its_finalizer_and_its_pool_reports_it() -> (
    None
):
    platform = _platform()
    unreadable = _make_unreadable(NAMES_LAB)
    unreadable["metadata"] |= {
        "finalizers": [names.FINALIZER_ALLOCATION],
        "deletionTimestamp": "2026-01-01T00:00:00Z",
    }
    platform.server.add("ipallocations", unreadable)
    async with platform.running():
        await platform.clock.advance(120)
        stored = platform.server.see("ipallocations", "odd")
        assert stored["metadata"]["finalizers"] == [names.FINALIZER_ALLOCATION]
        conditions = platform.server.see("networkpools", "lab")["status"]["conditions"]
        ready = next(c for c in conditions if c["type"] == "Ready")
        assert ready["message"] == (
            "nothing is handed out until they are repaired or deleted: IPAllocations that cannot"
            " be read: odd (it is being deleted: correct it, or remove its finalizers once nothing"
            " uses its addresses)"
        )
