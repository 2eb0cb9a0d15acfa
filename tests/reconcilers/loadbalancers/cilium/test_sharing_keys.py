"""A range that a Service with a sharing key used is released only after the operator restarted.

Until then, the operator may give an address of the range to another Service with the same key.
"""

from reconcilers.api import names
from reconcilers.loadbalancers.cilium.leader import LEASE_NAME
from reconcilers.loadbalancers.cilium.services import SHARING_KEY
from reconcilers.loadbalancers.port import BalancerMemory, NotYet, Proven, WithdrawalAnswer
from tests.reconcilers.lbipam import POOLS
from tests.reconcilers.loadbalancers.cilium.site import FIRST, Site

FIRST_ADDRESS, LATER_SERVICE = "10.40.0.0", "later"


async def _make_site(*, has_leases: bool = True) -> Site:
    """Return a tenant with the pool of an allocation; with a Lease of the operator by default."""
    leases = ("leases",) if has_leases else ()
    site = Site("services", "namespaces", POOLS, *leases)
    await site.project(FIRST)
    return site


async def _ask_for_shared_range(site: Site) -> WithdrawalAnswer:
    """Return the last of six answers for a range that a Service with a sharing key used."""
    return (await site.ask_six_times(release_note=SHARING_KEY))[-1]


def _get_reason(answer: WithdrawalAnswer) -> str:
    """Return why a range is not released yet."""
    assert isinstance(answer, NotYet)
    return answer.why


async def test_the_range_is_kept_until_the_operator_has_restarted() -> None:
    site = await _make_site()
    assert "restart the operator" in _get_reason(await _ask_for_shared_range(site))
    assert "restart the operator" in _get_reason(await _ask_for_shared_range(site))
    site.operator.restart()
    assert await _ask_for_shared_range(site) == Proven()


async def test_a_new_leader_has_to_acknowledge_the_empty_pool() -> None:
    site = await _make_site()
    await _ask_for_shared_range(site)
    site.operator.restart()
    site.operator.paused = True
    assert "since it restarted" in _get_reason(await site.ask(release_note=SHARING_KEY))
    assert "has not acknowledged" in _get_reason(await _ask_for_shared_range(site))
    site.operator.resume()
    assert await _ask_for_shared_range(site) == Proven()


async def test_a_restart_of_our_process_does_not_forget_the_leader_that_has_to_restart() -> None:
    site = await _make_site()
    await _ask_for_shared_range(site)
    site.releases[FIRST] = BalancerMemory()
    await _ask_for_shared_range(site)
    assert "restart the operator" in _get_reason(await _ask_for_shared_range(site))
    site.operator.restart()
    site.releases[FIRST] = BalancerMemory()
    await _ask_for_shared_range(site)
    assert await _ask_for_shared_range(site) == Proven()


async def test_a_release_without_a_lease_waits_and_names_it() -> None:
    site = await _make_site()
    site.tenant.delete("leases", LEASE_NAME, namespace="kube-system")
    assert f"no Lease {LEASE_NAME}" in _get_reason(await _ask_for_shared_range(site))


async def test_a_release_that_may_not_read_the_lease_waits_and_says_so() -> None:
    site = await _make_site(has_leases=False)
    assert f"the Lease {LEASE_NAME} in the tenant cannot be read" in _get_reason(
        await _ask_for_shared_range(site)
    )


async def test_a_range_that_is_projected_again_forgets_which_leader_emptied_it() -> None:
    site = await _make_site()
    await _ask_for_shared_range(site)
    assert names.ANNOTATION_EMPTIED_UNDER in site.pool()["metadata"]["annotations"]
    site.basis += 10
    await site.project(FIRST)
    assert names.ANNOTATION_EMPTIED_UNDER not in site.pool()["metadata"]["annotations"]


async def test_the_stand_in_gives_a_removed_address_to_a_later_service_as_the_operator_does() -> (
    None
):
    site = await _make_site()
    site.add_service("web", key="k")
    assert site.addresses() == [FIRST_ADDRESS]
    site.edit({"spec": {"blocks": []}})
    site.add_service(LATER_SERVICE, key="k")
    assert site.addresses(LATER_SERVICE) == [FIRST_ADDRESS]
    site.operator.restart()
    assert site.addresses(LATER_SERVICE) == []
