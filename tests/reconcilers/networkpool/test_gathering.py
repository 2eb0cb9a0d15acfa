"""Which changes of allocations a pool hears of, and how many of them one pass takes in."""

from dataclasses import replace
from typing import Any

import pytest

from controller.cache import Change
from reconcilers.networkpool.facts import concerns_pool
from reconcilers.promises.passes import PoolPasses
from tests.reconcilers import make
from tests.reconcilers.platform import Platform

OURS = "butler-ipam"
HELD = ("10.40.0.0", "10.40.0.7")
MARKED = {"deletionTimestamp": make.EPOCH.isoformat()}
THEIRS = [{"manager": "manager", "subresource": "status", "time": "2026-01-01T00:00:00Z"}]


def _range(number: int) -> tuple[str, str]:
    return (
        f"10.40.{number // 32}.{8 * (number % 32)}",
        f"10.40.{number // 32}.{8 * (number % 32) + 7}",
    )


@pytest.mark.parametrize(
    ("old", "new", "concerned"),
    [
        (None, {"finalizers": []}, False),
        (None, {}, True),
        (None, {"held_range": HELD}, True),
        ({"finalizers": []}, {}, True),
        ({}, {"labels": {"a": "b"}}, True),
        ({}, {"held_range": HELD}, True),
        ({}, MARKED, True),
        ({"held_range": HELD}, {"held_range": HELD, "labels": {"a": "b"}}, False),
        ({"held_range": HELD}, {"held_range": HELD} | MARKED, False),
        ({"held_range": HELD} | MARKED, {"held_range": HELD, "phase": "Released"} | MARKED, True),
        ({"held_range": HELD}, {"held_range": HELD, "phase": "Pending"}, True),
        ({"held_range": HELD}, {"held_range": HELD, "managedFields": THEIRS}, True),
        ({"held_range": HELD}, {"held_range": HELD, "uid": "another"}, True),
        ({"held_range": HELD}, {"held_range": HELD, "of": "other"}, True),
        ({"held_range": HELD} | MARKED, None, True),
        ({}, None, True),
        (MARKED, None, False),
    ],
)
def test_a_pool_is_enqueued_by_changes_that_may_need_work(
    old: dict[str, Any] | None, new: dict[str, Any] | None, concerned: bool
) -> None:
    before = make.allocation("a", **old) if old is not None else None
    after = make.allocation("a", **new) if new is not None else None
    assert concerns_pool(Change(before, after), OURS) == concerned


async def test_releases_and_relabellings_of_many_cost_few_passes_and_one_write(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    passes = 0
    reconcile = PoolPasses.reconcile

    async def counting(self: PoolPasses[Any, Any, Any, Any], key: Any) -> Any:
        nonlocal passes
        passes += 1
        return await reconcile(self, key)

    monkeypatch.setattr(PoolPasses, "reconcile", counting)
    platform = Platform()
    platform.server.add("networkpools", make.pool(cidr="10.40.0.0/20"))
    for number in range(64):
        allocation = make.allocation(f"held-{number:02}", held_range=_range(number), size=8)
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
        # One for the releases, one for the answer to the status write.
        assert passes <= 2
        assert platform.server.count(verb="patch", plural="networkpools") == 1
        assert platform.server.see("networkpools", "lab")["status"]["allocatedIPs"] == 14 * 8


async def test_releases_that_go_on_while_the_pool_is_written_are_gathered_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    platform = Platform()
    answer = platform.server.request

    async def slow(method: str, path: str, **arguments: Any) -> bytes:
        answered = await answer(method, path, **arguments)
        if method == "PATCH":
            await platform.clock.sleep(0.02)
        return answered

    monkeypatch.setattr(platform.server, "request", slow)
    platform.server.add("networkpools", make.pool(cidr="10.40.0.0/20"))
    for number in range(128):
        allocation = make.allocation(f"held-{number:03}", held_range=_range(number), size=8)
        platform.server.add("ipallocations", allocation)
    async with platform.running():
        await platform.clock.advance(2)
        platform.server.requests.clear()
        for number in range(100):
            platform.server.vanish("ipallocations", f"held-{number:03}")
            await platform.clock.advance(0.01)
        await platform.clock.advance(1)
        # A second of releases, gathered for a tenth of a second each time.
        assert platform.server.count(verb="patch", plural="networkpools") <= 11
        assert platform.server.see("networkpools", "lab")["status"]["allocatedIPs"] == 28 * 8


async def test_a_request_does_not_wait_for_releases_to_gather() -> None:
    platform = Platform()
    settings = replace(platform.settings.pool, gather=5.0)
    platform.settings = replace(platform.settings, pool=settings)
    platform.server.add("networkpools", make.pool())
    platform.server.add("ipallocations", make.allocation("held", held_range=HELD))
    async with platform.running():
        await platform.clock.advance(7)
        platform.server.vanish("ipallocations", "held")
        await platform.clock.advance(1)
        assert platform.server.see("networkpools", "lab")["status"]["allocatedIPs"] == 8
        platform.server.add("ipallocations", make.allocation("new"))
        await platform.clock.advance(0.01)
        assert platform.phase("ipallocations", "new") == "Allocated"
        assert platform.server.see("ipallocations", "new")["status"]["startAddress"] == HELD[0]


async def test_a_repaired_allocation_lets_its_pool_go_on_at_once() -> None:
    platform = Platform()
    platform.server.add("networkpools", make.pool())
    platform.server.add("ipallocations", make.allocation("odd", held_range=HELD))
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
