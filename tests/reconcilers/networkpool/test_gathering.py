"""Which changes of allocations enqueue their pool, and how many changes one pass handles.

Releases are gathered for a tenth of a second before their pool is enqueued.
"""

from dataclasses import replace
from typing import Any

import pytest

from controller.cache import Change
from reconcilers.networkpool.facts import concerns_pool
from reconcilers.promises.passes import PoolPasses
from tests.reconcilers import make
from tests.reconcilers.platform import Platform

OURS = "butler-ipam"
RANGE = ("10.40.0.0", "10.40.0.7")
DELETED = {"deletionTimestamp": make.EPOCH.isoformat()}
FOREIGN_WRITE = [{"manager": "manager", "subresource": "status", "time": "2026-01-01T00:00:00Z"}]


def _make_range(number: int) -> tuple[str, str]:
    """Return the ends of the range `number`, of eight addresses each."""
    return (
        f"10.40.{number // 32}.{8 * (number % 32)}",
        f"10.40.{number // 32}.{8 * (number % 32) + 7}",
    )


@pytest.mark.parametrize(
    ("old", "new", "is_enqueued"),
    [
        (None, {"finalizers": []}, False),
        (None, {}, True),
        (None, {"held_range": RANGE}, True),
        ({"finalizers": []}, {}, True),
        ({}, {"labels": {"a": "b"}}, True),
        ({}, {"held_range": RANGE}, True),
        ({}, DELETED, True),
        ({"held_range": RANGE}, {"held_range": RANGE, "labels": {"a": "b"}}, False),
        ({"held_range": RANGE}, {"held_range": RANGE} | DELETED, False),
        (
            {"held_range": RANGE} | DELETED,
            {"held_range": RANGE, "phase": "Released"} | DELETED,
            True,
        ),
        ({"held_range": RANGE}, {"held_range": RANGE, "phase": "Pending"}, True),
        ({"held_range": RANGE}, {"held_range": RANGE, "managedFields": FOREIGN_WRITE}, True),
        ({"held_range": RANGE}, {"held_range": RANGE, "uid": "another"}, True),
        ({"held_range": RANGE}, {"held_range": RANGE, "of": "other"}, True),
        ({"held_range": RANGE} | DELETED, None, True),
        ({}, None, True),
        (DELETED, None, False),
    ],
)
def test_a_pool_is_enqueued_by_changes_that_may_need_work(
    old: dict[str, Any] | None, new: dict[str, Any] | None, is_enqueued: bool
) -> None:
    before = make.allocation("a", **old) if old is not None else None
    after = make.allocation("a", **new) if new is not None else None
    assert concerns_pool(Change(before, after), OURS) == is_enqueued


async def test_many_new_labels_cost_no_pass_and_many_releases_cost_one_write(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    passes = 0
    reconcile = PoolPasses.reconcile

    async def count_pass(self: PoolPasses[Any, Any, Any, Any], key: Any) -> Any:
        nonlocal passes
        passes += 1
        return await reconcile(self, key)

    monkeypatch.setattr(PoolPasses, "reconcile", count_pass)
    platform = Platform()
    platform.server.add("networkpools", make.pool(cidr="10.40.0.0/20"))
    for number in range(64):
        allocation = make.allocation(f"held-{number:02}", held_range=_make_range(number), size=8)
        platform.server.add("ipallocations", allocation)
    async with platform.running():
        await platform.clock.advance(2)
        passes = 0
        platform.server.requests.clear()
        for number in range(64):
            patch = {"metadata": {"labels": {"a": "b"}}}
            platform.server.edit("ipallocations", f"held-{number:02}", patch)
            await platform.clock.advance(0.001)
        await platform.clock.advance(1)
        assert passes == 0
        for number in range(50):
            platform.server.vanish("ipallocations", f"held-{number:02}")
            await platform.clock.advance(0.001)
        await platform.clock.advance(1)
        assert passes <= 2, "one for the releases, one for the answer to the status write"
        assert platform.server.count(verb="patch", plural="networkpools") == 1
        assert platform.server.see("networkpools", "lab")["status"]["allocatedIPs"] == 14 * 8


async def test_releases_are_gathered_even_while_the_pool_is_being_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    platform = Platform()
    request = platform.server.request

    async def request_slowly(method: str, path: str, **arguments: Any) -> bytes:
        response = await request(method, path, **arguments)
        if method == "PATCH":
            await platform.clock.sleep(0.02)
        return response

    monkeypatch.setattr(platform.server, "request", request_slowly)
    platform.server.add("networkpools", make.pool(cidr="10.40.0.0/20"))
    for number in range(128):
        allocation = make.allocation(f"held-{number:03}", held_range=_make_range(number), size=8)
        platform.server.add("ipallocations", allocation)
    async with platform.running():
        await platform.clock.advance(2)
        platform.server.requests.clear()
        for number in range(100):
            platform.server.vanish("ipallocations", f"held-{number:03}")
            await platform.clock.advance(0.01)
        await platform.clock.advance(1)
        # The releases take a second, and each write gathers a tenth of a second of them.
        assert platform.server.count(verb="patch", plural="networkpools") <= 11
        assert platform.server.see("networkpools", "lab")["status"]["allocatedIPs"] == 28 * 8


async def test_a_request_does_not_wait_for_releases_to_gather() -> None:
    platform = Platform()
    settings = replace(platform.settings.pool, gather=5.0)
    platform.settings = replace(platform.settings, pool=settings)
    platform.server.add("networkpools", make.pool())
    platform.server.add("ipallocations", make.allocation("held", held_range=RANGE))
    async with platform.running():
        await platform.clock.advance(7)
        platform.server.vanish("ipallocations", "held")
        await platform.clock.advance(1)
        assert platform.server.see("networkpools", "lab")["status"]["allocatedIPs"] == 8
        platform.server.add("ipallocations", make.allocation("new"))
        await platform.clock.advance(0.01)
        assert platform.phase("ipallocations", "new") == "Allocated"
        assert platform.server.see("ipallocations", "new")["status"]["startAddress"] == RANGE[0]


async def test_a_pool_allocates_at_once_after_its_unreadable_allocation_is_repaired() -> None:
    platform = Platform()
    platform.server.add("networkpools", make.pool())
    platform.server.add("ipallocations", make.allocation("odd", held_range=RANGE))
    async with platform.running():
        await platform.clock.advance(1)
        count: dict[str, Any] = {"spec": {"count": "many"}}
        platform.server.edit("ipallocations", "odd", count)
        platform.server.add("ipallocations", make.allocation("new"))
        await platform.clock.advance(1)
        assert platform.phase("ipallocations", "new") != "Allocated"
        platform.server.edit("ipallocations", "odd", {"spec": {"count": None}})
        await platform.clock.advance(1)
        assert platform.phase("ipallocations", "new") == "Allocated"
