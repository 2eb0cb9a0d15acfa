"""Pools that need a live LIST at the same time share one that began after all had asked."""

import anyio
import pytest

from controller.errors import ServerFailure
from controller.outcome import Again, Outcome
from tests.reconcilers import make
from tests.reconcilers.lab import Lab

POOLS = 40


def _make_lab(pools: int) -> Lab:
    """Return a lab with pools without a journal, which need a LIST, and an allocation of each."""
    lab = Lab()
    for number in range(pools):
        name = f"p{number:02}"
        pool = make.pool(name, cidr=f"10.{number}.0.0/24", memory=None)
        lab.server.add("networkpools", pool)
        lab.server.add("ipallocations", make.allocation(f"of-{name}", of=name))
    return lab


def _count_lists(lab: Lab) -> int:
    """Return how often allocations were listed."""
    return lab.server.count(verb="list", plural="ipallocations")


def _are_served(lab: Lab, pools: int) -> bool:
    """Return whether the allocations of the first `pools` pools have their ranges."""
    phases = [lab.read_status("ipallocations", f"of-p{n:02}").get("phase") for n in range(pools)]
    return phases == ["Allocated"] * pools


async def _run_passes(lab: Lab, pools: int) -> None:
    """Run a pass over each pool, all at the same time."""
    async with anyio.create_task_group() as group:
        for number in range(pools):
            group.start_soon(lab.pools.reconcile, make.key(f"p{number:02}"))


async def test_pools_that_need_a_fence_at_the_same_time_share_a_list() -> None:
    lab = _make_lab(POOLS)
    for _ in range(3):
        await _run_passes(lab, POOLS)
        await lab.clock.advance(0.5)
    assert _are_served(lab, POOLS)
    assert _count_lists(lab) == 2, "one for the first pool, one after all others had asked"


async def test_a_pool_that_waits_for_a_list_keeps_no_worker_busy() -> None:
    lab = _make_lab(2)
    outcomes: list[Outcome] = []

    async def reconcile_second() -> None:
        outcomes.append(await lab.pools.reconcile(make.key("p01")))
        assert not _are_served(lab, 1), "the LIST of the first pool is still under way"

    async with anyio.create_task_group() as group:
        group.start_soon(lab.pools.reconcile, make.key("p00"))
        group.start_soon(reconcile_second)
    assert outcomes == [Again(0.5)]
    assert _count_lists(lab) == 1


async def test_pools_of_several_namespaces_share_a_list() -> None:
    lab = _make_lab(1)
    for namespace in ("far", "near"):
        pool = make.pool("p", namespace=namespace, cidr="10.99.0.0/24", memory=None)
        lab.server.add("networkpools", pool)
        lab.server.add("ipallocations", make.allocation("a", of="p", namespace=namespace))
    keys = [make.key("p00"), make.key("p", "far"), make.key("p", "near")]
    for _ in range(3):
        async with anyio.create_task_group() as group:
            for key in keys:
                group.start_soon(lab.pools.reconcile, key)
        await lab.clock.advance(0.5)
    assert _count_lists(lab) == 2
    for namespace in ("far", "near"):
        allocation = lab.server.see("ipallocations", "a", namespace=namespace)
        assert allocation["status"]["phase"] == "Allocated"


async def test_after_a_list_that_failed_each_pool_that_waited_for_it_is_served_by_another() -> (
    None
):
    lab = _make_lab(3)
    lab.server.fail(ServerFailure(500, "", "no"), verb="list", plural="ipallocations")
    with pytest.raises(ExceptionGroup):
        await _run_passes(lab, 3)
    for _ in range(3):
        await lab.clock.advance(0.5)
        await _run_passes(lab, 3)
    assert _are_served(lab, 3)


async def test_no_earlier_list_is_used_after_it_was_unknown_whether_the_server_was_restored() -> (
    None
):
    lab = _make_lab(3)
    await _run_passes(lab, 3)
    await lab.pools.reconcile(make.key("p01"))  # This LIST is kept for p02.
    before = _count_lists(lab)
    lab.caches["ipallocations"].unconfirm_history()
    assert await lab.pools.reconcile(make.key("p01")) == Again(1.0)
    lab.caches["ipallocations"].is_history_confirmed = True
    await lab.pools.reconcile(make.key("p02"))
    assert _count_lists(lab) == before + 1
