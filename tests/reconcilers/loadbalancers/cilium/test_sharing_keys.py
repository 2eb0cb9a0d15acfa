"""A range that a Service with a sharing key used is free after Cilium's operator restarted."""

from reconcilers.api import names
from reconcilers.loadbalancers.cilium.leader import LEASE_NAME
from reconcilers.loadbalancers.cilium.services import SHARING_KEY
from reconcilers.loadbalancers.port import BalancerMemory, NotYet, Proven, WithdrawalAnswer
from tests.reconcilers.lbipam import POOLS
from tests.reconcilers.loadbalancers.cilium.site import FIRST, Site

OF_FIRST, LATER = "10.40.0.0", "later"


async def _site(*, has_leases: bool = True) -> Site:
    leases = ("leases",) if has_leases else ()
    site = Site("services", "namespaces", POOLS, *leases)
    await site.project(FIRST)
    return site


async def _ask(site: Site) -> WithdrawalAnswer:
    """Return the last of six answers for a range that a Service with a sharing key used."""
    return (await site.ask_often(release_note=SHARING_KEY))[-1]


def _why(answer: WithdrawalAnswer) -> str:
    assert isinstance(answer, NotYet)
    return answer.why


async def test_the_range_is_kept_until_the_operator_has_restarted() -> None:
    site = await _site()
    assert "restart the operator" in _why(await _ask(site))
    assert "restart the operator" in _why(await _ask(site))
    site.operator.restart()
    assert await _ask(site) == Proven()


async def test_a_new_leader_has_to_acknowledge_the_empty_pool() -> None:
    site = await _site()
    await _ask(site)
    site.operator.restart()
    site.operator.paused = True
    assert "since it restarted" in _why(await site.ask(release_note=SHARING_KEY))
    assert "has not acknowledged" in _why(await _ask(site))
    site.operator.resume()
    assert await _ask(site) == Proven()


async def test_a_restart_of_ours_forgets_neither_the_leader_nor_the_wait_for_another() -> None:
    site = await _site()
    await _ask(site)
    site.releases[FIRST] = BalancerMemory()
    await _ask(site)
    assert "restart the operator" in _why(await _ask(site))
    site.operator.restart()
    site.releases[FIRST] = BalancerMemory()
    await _ask(site)
    assert await _ask(site) == Proven()


async def test_a_release_without_a_lease_waits_and_names_it() -> None:
    site = await _site()
    site.tenant.delete("leases", LEASE_NAME, namespace="kube-system")
    assert f"no Lease {LEASE_NAME}" in _why(await _ask(site))


async def test_a_release_that_may_not_read_the_lease_waits_and_says_so() -> None:
    site = await _site(has_leases=False)
    assert f"the Lease {LEASE_NAME} in the tenant cannot be read" in _why(await _ask(site))


async def test_a_range_that_is_offered_again_forgets_under_whom_it_was_emptied() -> None:
    site = await _site()
    await _ask(site)
    assert names.ANNOTATION_EMPTIED_UNDER in site.pool()["metadata"]["annotations"]
    site.basis += 10
    await site.project(FIRST)
    assert names.ANNOTATION_EMPTIED_UNDER not in site.pool()["metadata"]["annotations"]


async def test_the_stand_in_gives_a_dead_address_to_a_later_service_as_the_operator_does() -> None:
    site = await _site()
    site.add_service("web", key="k")
    assert site.addresses() == [OF_FIRST]
    site.edit({"spec": {"blocks": []}})
    site.add_service(LATER, key="k")
    assert site.addresses(LATER) == [OF_FIRST]
    site.operator.restart()
    assert site.addresses(LATER) == []
