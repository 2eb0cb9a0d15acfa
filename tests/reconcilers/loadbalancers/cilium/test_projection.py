"""Projection into Cilium: a pool in the tenant for each allocation, and no write of old state."""

import pytest

from reconcilers.api import names
from reconcilers.loadbalancers.cilium.pools import make_pool_name
from reconcilers.loadbalancers.port import BalancerBlocked, HealthState, Proven
from tests.reconcilers.lbipam import POOLS, list_offered_entries
from tests.reconcilers.loadbalancers.cilium.site import FIRST, OWNER, RANGES, SECOND, Site
from tests.reconcilers.served import KINDS


async def test_each_allocation_has_a_pool_with_its_owner_and_basis() -> None:
    site = Site()
    await site.project(FIRST, SECOND)
    assert site.pool()["spec"] == {
        "blocks": [
            {"start": "10.40.0.0", "stop": "10.40.0.7"},
            {"start": "fd00::10", "stop": "fd00::17"},
        ],
        "disabled": False,
    }
    annotations = site.pool(SECOND)["metadata"]["annotations"]
    assert annotations == {
        **OWNER,
        names.ANNOTATION_PROJECTION_BASIS: "100",
        names.ANNOTATION_ALLOCATION_UID: "uid-2",
    }


async def test_services_get_addresses_of_all_pools_in_both_families() -> None:
    site = Site()
    await site.project(FIRST, SECOND)
    site.add_service(ipFamilies=["IPv4", "IPv6"])
    assert site.addresses() == ["10.40.0.0", "fd00::10"]


async def test_a_second_projection_of_the_same_ranges_writes_nothing() -> None:
    site = Site()
    await site.project(FIRST, SECOND)
    before = site.tenant.revision
    await site.project(FIRST, SECOND, basis=500)
    assert site.tenant.revision == before


async def test_a_pool_is_created_without_blocks_and_filled_after_a_live_read() -> None:
    site = Site()
    created = []
    site.tenant.listeners.append(lambda happened: created.append(happened.object["spec"]))
    with pytest.raises(BalancerBlocked, match="stale"):
        await site.project(FIRST, confirmed=[])
    assert created
    assert all(spec["blocks"] == [] for spec in created)
    assert not site.has_pool(), "an empty pool would disturb another load balancer"
    await site.project(FIRST)
    assert list_offered_entries(site.tenant) == list(RANGES[FIRST])


async def test_a_projection_with_an_older_basis_than_that_of_a_pool_is_blocked() -> None:
    site = Site()
    await site.project(FIRST, basis=200)
    with pytest.raises(BalancerBlocked, match="newer state"):
        await site.project(FIRST, basis=100)


async def test_the_pool_of_an_allocation_that_is_being_released_is_left_to_the_release() -> None:
    site = Site()
    await site.project(FIRST, SECOND)
    await site.project(SECOND, releasing=FIRST.uid)
    assert site.pool()["spec"]["blocks"] != []


async def test_services_lose_the_addresses_of_a_deleted_allocation() -> None:
    site = Site()
    await site.project(FIRST, SECOND)
    site.add_service()
    assert site.addresses() == ["10.40.0.0"]
    for _ in range(2):
        await site.project(SECOND, evicting=FIRST)
    assert site.addresses() == ["10.40.0.8"]
    for _ in range(2):
        await site.ask_six_times()
    assert (await site.ask_six_times())[-1] == Proven()


@pytest.mark.parametrize("is_disabled", [False, True], ids=["offered", "disabled"])
@pytest.mark.parametrize("is_all", [True, False], ids=["instead of the ranges", "beside them"])
async def test_services_lose_the_addresses_of_a_deleted_allocation_despite_an_unreadable_block(
    is_all: bool, is_disabled: bool
) -> None:
    site = Site()
    await site.project(FIRST, SECOND)
    site.add_service()
    own = () if is_all else site.pool()["spec"]["blocks"]
    if is_disabled:
        await site.project(SECOND, evicting=FIRST)
    site.edit({"spec": {"blocks": [*own, {"start": "nonsense"}]}})
    for _ in range(10):
        await site.project(SECOND, evicting=FIRST)
        await site.clock.advance(1)
    assert site.addresses() == ["10.40.0.8"]


async def test_a_service_with_a_sharing_key_keeps_its_address_of_a_deleted_allocation() -> None:
    site = Site()
    await site.project(FIRST, SECOND)
    site.add_service(key="shared")
    for _ in range(5):
        await site.project(SECOND, evicting=FIRST)
    assert site.addresses() == ["10.40.0.0"]
    assert site.pool()["spec"]["disabled"] is True
    assert site.pool()["spec"]["blocks"] != []


async def test_a_projection_with_an_older_basis_does_not_disable_a_pool() -> None:
    site = Site()
    await site.project(FIRST, SECOND, basis=200)
    site.add_service()
    await site.project(basis=100, evicting=FIRST, releasing=SECOND.uid)
    assert site.pool()["spec"]["disabled"] is False


async def test_a_pool_without_an_allocation_is_emptied_and_later_deleted() -> None:
    site = Site()
    await site.project(FIRST, SECOND)
    site.operator.paused = True
    for _ in range(2):
        await site.project(SECOND)
        assert site.pool()["spec"]["blocks"] == []
    site.operator.resume()
    await site.project(SECOND)
    assert not site.has_pool()
    assert list_offered_entries(site.tenant) == list(RANGES[SECOND])


async def test_edits_by_hand_are_written_back_and_reported() -> None:
    site = Site()
    await site.project(FIRST)
    theirs = {
        "blocks": [{"cidr": "10.40.0.0/24"}],
        "disabled": True,
        "serviceSelector": {"matchLabels": {"a": "b"}},
    }
    site.edit({"spec": theirs})
    await site.project(FIRST)
    assert list_offered_entries(site.tenant) == list(RANGES[FIRST])
    assert site.pool()["spec"]["disabled"] is False
    assert "serviceSelector" not in site.pool()["spec"]
    (correction,) = site.kind.take_corrections(site.memory)
    for field in ("serviceSelector", "blocks", "disabled"):
        assert field in correction.description


async def test_a_repeated_edit_by_hand_is_written_back_less_and_less_often() -> None:
    site = Site()
    await site.project(FIRST)
    for _ in range(8):
        site.edit({"spec": {"disabled": True}})
        await site.project(FIRST)
    assert site.pool()["spec"]["disabled"] is True
    health = await site.balancer().read_health(site.make_projection(FIRST))
    assert health.state is HealthState.CONTESTED
    assert site.kind.compute_check_delay(site.memory) is not None


async def test_an_edit_of_a_deleted_allocations_pool_is_written_back_less_and_less_often() -> None:
    site = Site()
    await site.project(FIRST, SECOND)
    site.add_service(key="shared")
    await site.project(SECOND, evicting=FIRST)
    corrections = 0
    for _ in range(30):
        site.edit({"spec": {"disabled": False}})
        await site.project(SECOND, evicting=FIRST)
        corrections += site.pool()["spec"]["disabled"]
    assert corrections == 5
    health = await site.balancer().read_health(site.make_projection(SECOND))
    assert health.state is HealthState.CONTESTED
    assert len(site.kind.take_corrections(site.memory)) == 5
    assert site.kind.compute_check_delay(site.memory) is not None


async def test_a_pool_whose_edits_the_operator_missed_is_acknowledged_after_a_nonce() -> None:
    # The operator writes no status if it finds the spec as it was; a nonce changes the spec.
    site = Site()
    await site.project(FIRST)
    site.operator.paused = True
    site.edit({"spec": {"disabled": True}})
    await site.project(FIRST)
    site.operator.resume()
    assert await _read_reason(site) == "CiliumNotRunning"
    for _ in range(8):
        await site.clock.advance(1)
        await site.project(FIRST)
    assert await _read_reason(site) == ""
    assert list_offered_entries(site.tenant) == list(RANGES[FIRST])
    assert site.kind.take_corrections(site.memory)[1:] == [], "a nonce is no edit by others"


async def _read_reason(site: Site) -> str:
    """Return why the first allocation is not served; empty if it is."""
    return (await site.balancer().read_health(site.make_projection(FIRST))).reason


async def test_a_paused_operator_gets_nonces_less_and_less_often() -> None:
    site = Site()
    site.operator.paused = True
    await site.project(FIRST)
    generations = []
    for _ in range(4):
        before = site.pool()["metadata"]["generation"]
        for _ in range(60):
            await site.clock.advance(1)
            await site.project(FIRST)
        generations.append(site.pool()["metadata"]["generation"] - before)
    assert generations[0] > generations[-1]
    assert max(generations) < 5


async def test_pools_are_removed_even_if_an_acknowledgement_is_lost() -> None:
    site = Site()
    await site.project(FIRST, SECOND)
    site.add_service()
    site.operator.loses_counts = True
    await site.project(SECOND, evicting=FIRST)
    for _ in range(8):
        await site.clock.advance(1)
        await site.project(SECOND, evicting=FIRST)
    assert site.addresses() == ["10.40.0.8"]
    site.operator.loses_counts = True
    for _ in range(8):
        await site.clock.advance(1)
        await site.project(SECOND)
    assert not site.has_pool()


async def test_a_pool_that_was_deleted_by_hand_is_created_again() -> None:
    site = Site()
    await site.project(FIRST)
    site.tenant.delete(POOLS, make_pool_name(FIRST), namespace="")
    await site.project(FIRST)
    assert list_offered_entries(site.tenant) == list(RANGES[FIRST])


async def test_nothing_is_written_beside_the_pools_of_another_cluster() -> None:
    site = Site()
    await site.project(SECOND)
    site.edit({"metadata": {"annotations": {names.ANNOTATION_PROJECTION_OWNER: "team/b"}}}, SECOND)
    with pytest.raises(BalancerBlocked, match="team/b"):
        await site.project(FIRST)
    assert not site.has_pool()
    await site.project()
    assert site.pool(SECOND)["spec"]["blocks"] != []


async def test_pools_of_others_are_left_alone() -> None:
    site = Site()
    site.tenant.add(POOLS, {"metadata": {"name": "theirs"}, "spec": {"blocks": []}})
    await site.project(FIRST)
    await site.project()
    await site.balancer().remove("", lambda _: False)
    assert site.tenant.has(POOLS, "theirs", namespace="")


async def test_a_tenant_of_an_older_cilium_is_served_by_the_older_version(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(KINDS, POOLS, ("cilium.io/v2alpha1", "CiliumLoadBalancerIPPool"))
    site = Site()
    await site.project(FIRST)
    assert site.pool()["apiVersion"] == "cilium.io/v2alpha1"
    monkeypatch.undo()  # Cilium is upgraded
    site.basis = 200
    await site.project(FIRST, SECOND)
    assert set(list_offered_entries(site.tenant)) == {*RANGES[FIRST], *RANGES[SECOND]}


async def test_a_tenant_without_the_kind_is_reported() -> None:
    site = Site("services")
    with pytest.raises(BalancerBlocked) as blocked:
        await site.project(FIRST)
    assert blocked.value.reason == "CiliumNotInstalled"


async def test_pools_with_a_basis_of_a_lost_history_are_overwritten() -> None:
    site = Site()
    await site.project(FIRST, SECOND, basis=900)

    async def permit(_: object) -> None:
        """Permit all."""

    before = await site.balancer().overwrite(site.make_projection(SECOND), 500, permit)
    assert before is not None
    assert before.basis == 900
    assert list_offered_entries(site.tenant) == list(RANGES[SECOND])
    assert await site.balancer().overwrite(site.make_projection(SECOND), 500, permit) is None


async def test_health_distinguishes_a_paused_operator_from_a_conflict_of_pools() -> None:
    site = Site()
    await site.project(FIRST)
    assert (
        await site.balancer().read_health(site.make_projection(FIRST))
    ).state is HealthState.RUNNING
    site.operator.paused = True
    await site.project(FIRST, SECOND)
    health = await site.balancer().read_health(site.make_projection(FIRST, SECOND))
    assert (health.state, health.reason) == (HealthState.NOT_READING, "CiliumNotRunning")
    assert site.kind.compute_check_delay(site.memory) == 1.0
    site.operator.resume()
    conflict = {"type": "cilium.io/PoolConflict", "status": "True", "message": "overlaps theirs"}
    site.operator.paused = True
    site.edit({"status": {"conditions": [conflict]}})
    health = await site.balancer().read_health(site.make_projection(FIRST))
    assert (health.reason, "overlaps theirs" in health.message) == ("CiliumPoolConflict", True)
    stale = await site.balancer().find_stale_configuration(await site.balancer().read())
    assert stale == "overlaps theirs"


async def test_emptied_pools_are_removed_and_pools_with_blocks_are_not() -> None:
    site = Site()
    await site.project(FIRST, SECOND)
    await site.ask_six_times()
    await site.balancer().remove("", lambda _: False)
    assert not site.has_pool()
    assert site.has_pool(SECOND)
