"""After another operator took the Lease, the one before it may stand still and go on later."""

from datetime import timedelta

from controller.errors import Forbidden
from reconcilers.loadbalancers.cilium.leader import LEASE_NAME
from reconcilers.loadbalancers.port import Proven, Unprovable, WithdrawalAnswer
from tests.reconcilers.lbipam import POOLS
from tests.reconcilers.loadbalancers.cilium.site import FIRST, Site

WAIT = 10
"""The bounded wait of the site."""


async def _take_over(seconds: float, *, transitions: int = 1) -> Site:
    """Return a tenant whose operator took the Lease so many seconds ago."""
    site = Site("services", "namespaces", POOLS, "leases")
    await site.project(FIRST)
    taken_at = site.clock.now() - timedelta(seconds=seconds)
    _edit_lease(site, acquireTime=taken_at.isoformat(), leaseTransitions=transitions)
    return site


def _edit_lease(site: Site, **spec: object) -> None:
    site.tenant.edit("leases", LEASE_NAME, {"spec": spec}, namespace="kube-system")


async def _empty_pool(site: Site) -> WithdrawalAnswer:
    """Return the answer once the pool was drained, emptied and acknowledged twice."""
    await site.ask()
    await site.ask()
    return await site.ask()


async def test_a_range_is_not_proven_to_be_free_soon_after_a_takeover() -> None:
    site = await _take_over(0)
    answer = await _empty_pool(site)
    assert isinstance(answer, Unprovable)
    assert "operator kube-system/operator-1 took the Lease" in answer.purpose
    assert await site.ask() == answer, "the wait does not begin anew"
    await site.clock.advance(WAIT)
    assert await site.ask() == Proven()


async def test_another_takeover_begins_another_wait() -> None:
    site = await _take_over(0)
    before = await _empty_pool(site)
    _edit_lease(site, holderIdentity="operator-2")
    after = await site.ask()
    assert isinstance(before, Unprovable)
    assert isinstance(after, Unprovable)
    assert before.version != after.version


async def test_a_takeover_long_ago_and_a_first_leader_are_no_reason_to_wait() -> None:
    assert await _empty_pool(await _take_over(WAIT)) == Proven()
    assert await _empty_pool(await _take_over(0, transitions=0)) == Proven()


async def test_a_lease_that_must_not_be_read_leaves_the_bounded_wait() -> None:
    site = Site("services", "namespaces", POOLS, "leases")
    await site.project(FIRST)
    site.tenant.fail(Forbidden(403, "Forbidden", "no role"), times=100, plural="leases")
    answer = await _empty_pool(site)
    assert isinstance(answer, Unprovable)
    assert LEASE_NAME in answer.purpose
    assert await site.ask() == answer, "the wait does not begin anew"


async def test_a_time_that_cannot_be_read_is_no_reason_to_wait() -> None:
    site = await _take_over(0)
    for timestamp in ("nonsense", "2026-01-01T00:00:00"):
        _edit_lease(site, acquireTime=timestamp)
        assert await _empty_pool(site) == Proven()
