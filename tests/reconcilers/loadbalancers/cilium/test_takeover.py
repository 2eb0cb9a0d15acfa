"""After an operator took the Lease, the former leader may be paused and continue later."""

from datetime import timedelta

from controller.errors import Forbidden
from reconcilers.loadbalancers.cilium.leader import LEASE_NAME
from reconcilers.loadbalancers.port import Proven, Unprovable, WithdrawalAnswer
from tests.reconcilers.lbipam import POOLS
from tests.reconcilers.loadbalancers.cilium.site import FIRST, Site

WAIT = 10
"""The bounded wait of a site, in seconds."""


async def _make_site_after_takeover(seconds: float, *, transitions: int = 1) -> Site:
    """Return a tenant whose operator took the Lease so many seconds ago.

    A Lease without transitions is that of the first leader.
    """
    site = Site("services", "namespaces", POOLS, "leases")
    await site.project(FIRST)
    taken_at = site.clock.now() - timedelta(seconds=seconds)
    _edit_lease(site, acquireTime=taken_at.isoformat(), leaseTransitions=transitions)
    return site


def _edit_lease(site: Site, **spec: object) -> None:
    """Edit the spec of the operator's Lease."""
    site.tenant.edit("leases", LEASE_NAME, {"spec": spec}, namespace="kube-system")


async def _empty_pool(site: Site) -> WithdrawalAnswer:
    """Return the answer once the pool was drained, emptied and acknowledged twice."""
    await site.ask()
    await site.ask()
    return await site.ask()


async def test_a_range_is_not_proven_to_be_free_soon_after_a_takeover() -> None:
    site = await _make_site_after_takeover(0)
    answer = await _empty_pool(site)
    assert isinstance(answer, Unprovable)
    assert "operator kube-system/operator-1 took the Lease" in answer.purpose
    assert await site.ask() == answer, "the wait does not start over"
    await site.clock.advance(WAIT)
    assert await site.ask() == Proven()


async def test_another_takeover_starts_another_wait() -> None:
    site = await _make_site_after_takeover(0)
    before = await _empty_pool(site)
    _edit_lease(site, holderIdentity="operator-2")
    after = await site.ask()
    assert isinstance(before, Unprovable)
    assert isinstance(after, Unprovable)
    assert before.version != after.version


async def test_a_release_does_not_wait_long_after_a_takeover_or_under_the_first_leader() -> None:
    assert await _empty_pool(await _make_site_after_takeover(WAIT)) == Proven()
    assert await _empty_pool(await _make_site_after_takeover(0, transitions=0)) == Proven()


async def test_a_release_waits_if_the_lease_cannot_be_read() -> None:
    site = Site("services", "namespaces", POOLS, "leases")
    await site.project(FIRST)
    site.tenant.fail(Forbidden(403, "Forbidden", "no role"), times=100, plural="leases")
    answer = await _empty_pool(site)
    assert isinstance(answer, Unprovable)
    assert LEASE_NAME in answer.purpose
    assert await site.ask() == answer, "the wait does not start over"


async def test_a_release_does_not_wait_if_the_time_of_the_takeover_cannot_be_parsed() -> None:
    site = await _make_site_after_takeover(0)
    for timestamp in ("nonsense", "2026-01-01T00:00:00"):
        _edit_lease(site, acquireTime=timestamp)
        assert await _empty_pool(site) == Proven()
