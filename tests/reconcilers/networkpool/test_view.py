"""An allocation that cannot be decoded blocks its pool, as it may hold any range of the pool."""

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
"""An invalid spec that names the pool `lab`."""
WITHOUT_POOL = {"poolRef": 5, "count": "many"}
"""An invalid spec whose pool cannot be read either."""


def _make_platform() -> Platform:
    """Return a platform with the pools `lab` and `other`, and `far` in another namespace."""
    platform = Platform()
    platform.server.add("networkpools", make.pool())
    platform.server.add("networkpools", make.pool("other", cidr="10.50.0.0/24"))
    platform.server.add("networkpools", make.pool("far", cidr="10.60.0.0/24", namespace="far"))
    return platform


async def _probe_pools(platform: Platform) -> dict[str, bool]:
    """Add a request for each pool, and return by pool whether it is served within a second."""
    expected = {"lab": make.NAMESPACE, "other": make.NAMESPACE, "far": "far"}
    for pool, namespace in expected.items():
        asks = make.allocation(f"asks-{pool}", of=pool, namespace=namespace)
        platform.server.add("ipallocations", asks)
    await platform.clock.advance(1)
    return {
        pool: platform.phase("ipallocations", f"asks-{pool}", namespace) == "Allocated"
        for pool, namespace in expected.items()
    }


@pytest.mark.parametrize("is_in_list", [True, False], ids=["in the list", "in the watch"])
@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (NAMES_LAB, {"lab": False, "other": True, "far": True}),
        (WITHOUT_POOL, {"lab": False, "other": False, "far": True}),
    ],
    ids=["the spec names the pool", "the pool cannot be read"],
)
async def test_an_unreadable_allocation_blocks_the_pools_that_may_be_its_own(
    spec: Any, expected: dict[str, bool], is_in_list: bool
) -> None:
    platform = _make_platform()
    if is_in_list:
        platform.server.add("ipallocations", _make_unreadable(spec))
    async with platform.running():
        platform.server.add("ipallocations", _make_unreadable(spec))
        await platform.clock.advance(1)
        assert await _probe_pools(platform) == expected
        conditions = platform.server.see("networkpools", "lab")["status"]["conditions"]
        ready = next(c for c in conditions if c["type"] == "Ready")
        assert (ready["reason"], "odd" in ready["message"]) == ("UnreadableAllocation", True)


async def test_a_pool_allocates_again_once_its_unreadable_allocation_is_deleted() -> None:
    platform = _make_platform()
    platform.server.add("ipallocations", _make_unreadable(NAMES_LAB))
    async with platform.running():
        assert not (await _probe_pools(platform))["lab"]
        platform.server.vanish("ipallocations", "odd")
        await platform.clock.advance(61)
        assert platform.phase("ipallocations", "asks-lab") == "Allocated"


async def test_a_new_pool_gets_no_journal_while_an_allocation_of_it_is_unreadable() -> None:
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
    platform = _make_platform()
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
