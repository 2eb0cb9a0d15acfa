"""A range is released only after the operator has acknowledged twice that its pool is empty.

The operator acknowledges a pool by a status with the generation that it has read. If it misses a
change, a *nonce*, a change without effect, makes it write the status again.
"""

from dataclasses import replace

import msgspec
import pytest

from controller.errors import Conflict
from reconcilers.api import names
from reconcilers.loadbalancers.cilium.nonces import NONCE_SECONDS
from reconcilers.loadbalancers.cilium.pools import CiliumPool, make_pool_name
from reconcilers.loadbalancers.cilium.release import (
    LEADER_NOT_NEEDED,
    ReleaseMemory,
    ReleaseWrite,
    decide_step,
)
from reconcilers.loadbalancers.port import (
    BalancerBlocked,
    BalancerMemory,
    NotYet,
    Proven,
    Unprovable,
    Withdrawal,
)
from tests.reconcilers.lbipam import POOLS
from tests.reconcilers.loadbalancers.cilium.site import (
    FIRST,
    OWNER,
    SECOND,
    NoNote,
    Site,
    parse_ranges_of,
)
from tests.reconcilers.server import Json

MARK = 101
"""The revision at which the release of FIRST began."""


async def _make_site() -> Site:
    """Return a tenant with the pools of two allocations."""
    site = Site()
    await site.project(FIRST, SECOND)
    return site


async def test_a_range_is_disabled_then_emptied_and_then_released() -> None:
    site = await _make_site()
    assert isinstance(await site.ask(), NotYet)
    assert site.pool()["spec"]["disabled"] is True
    assert isinstance(await site.ask(), NotYet)
    assert site.pool()["spec"]["blocks"] == []
    assert await site.ask() == Proven()


async def test_a_release_leaves_the_pools_of_other_allocations_alone() -> None:
    site = await _make_site()
    before = site.pool(SECOND)["metadata"]["generation"]
    assert (await site.ask_six_times())[-1] == Proven()
    assert site.pool(SECOND)["metadata"]["generation"] == before


async def test_no_range_is_released_while_the_operator_is_paused() -> None:
    site = await _make_site()
    site.operator.paused = True
    for _ in range(10):
        answers = await site.ask_six_times()
        assert all(isinstance(answer, NotYet) for answer in answers)
    site.operator.resume()
    assert (await site.ask_six_times())[-1] == Proven()


@pytest.mark.parametrize("steps", [1, 2])
async def test_another_process_continues_a_release_and_relies_on_its_own_writes(
    steps: int,
) -> None:
    site = await _make_site()
    for _ in range(steps):
        await site.ask()
    site.releases[FIRST] = BalancerMemory()
    before = site.pool()
    assert isinstance(await site.ask(), NotYet)
    assert site.pool() == before, "the other process may be about to finish"
    await site.ask_six_times()
    assert site.pool()["spec"]["allowFirstLastIPs"] == "Yes"
    assert (await site.ask_six_times())[-1] == Proven()


async def test_an_acknowledgement_that_was_lost_is_asked_for_again() -> None:
    site = await _make_site()
    site.operator.loses_counts = True
    answers = await site.ask_six_times()
    assert all(isinstance(answer, NotYet) for answer in answers)
    generation = site.pool()["metadata"]["generation"]
    assert generation > 3, "a nonce followed"
    assert (await site.ask_six_times())[-1] == Proven()


async def test_a_pool_whose_edits_the_operator_missed_is_acknowledged_after_a_nonce() -> None:
    site = await _make_site()
    await site.ask()
    site.operator.paused = True
    site.edit({"spec": {"disabled": False}})
    site.edit({"spec": {"disabled": True}})
    site.operator.resume()
    assert all(isinstance(answer, NotYet) for answer in await site.ask_six_times())
    assert (await site.ask_six_times())[-1] == Proven()


async def test_two_processes_that_release_the_same_range_finish() -> None:
    site = await _make_site()
    balancer_memory, other = BalancerMemory(), BalancerMemory()
    answers = []
    for _ in range(12):
        for memory in (balancer_memory, other):
            site.releases[FIRST] = memory
            answers.append(await site.ask())
            await site.clock.advance(1)
    assert Proven() in answers


async def test_a_pool_that_was_edited_by_hand_is_emptied_and_released() -> None:
    site = await _make_site()
    await site.ask()
    site.edit({"spec": {"blocks": [{"start": "nonsense"}]}})
    assert (await site.ask_six_times())[-1] == Proven()
    assert site.pool()["spec"]["blocks"] == []


async def test_a_range_that_the_operator_counts_as_used_is_in_use() -> None:
    site = await _make_site()
    site.add_service()
    await site.ask()
    answer = await site.ask()
    assert isinstance(answer, NotYet)
    assert answer.is_used
    assert site.pool()["spec"]["blocks"] != [], "nothing is taken from the Service"


async def test_a_disabled_pool_gives_no_service_an_address() -> None:
    site = Site()
    await site.project(FIRST)
    await site.ask()
    site.add_service()
    assert site.addresses() == []
    assert (await site.ask_six_times())[-1] == Proven()


async def test_a_withdrawn_release_enables_the_pool_again_and_a_later_release_starts_over() -> (
    None
):
    site = await _make_site()
    await site.ask()
    await site.ask()
    site.basis = 200
    await site.project(FIRST, SECOND)
    assert site.pool()["spec"]["disabled"] is False
    site.add_service()
    assert site.addresses() != []
    site.tenant.delete("services", "web", namespace="default")
    assert isinstance(await site.ask(), NotYet)
    assert (await site.ask_six_times())[-1] == Proven()


async def test_a_projection_computed_before_the_release_cannot_restore_the_range() -> None:
    site = await _make_site()
    assert (await site.ask_six_times())[-1] == Proven()
    with pytest.raises(BalancerBlocked, match="newer state"):
        await site.project(FIRST, SECOND)
    assert site.pool()["spec"]["blocks"] == []


async def test_a_projection_that_read_the_pool_before_the_release_conflicts() -> None:
    site = await _make_site()
    pool = (await site.balancer().read()).pools[make_pool_name(FIRST)]
    await site.ask()
    with pytest.raises(Conflict):
        await site.balancer()._pools.patch(pool, {"spec": {"disabled": False}})


async def test_a_range_with_addresses_in_a_pool_of_others_is_not_released() -> None:
    site = await _make_site()
    blocks = [{"cidr": "10.40.0.0/30"}]
    site.tenant.add(POOLS, {"metadata": {"name": "theirs"}, "spec": {"blocks": blocks}})
    answer = (await site.ask_six_times())[-1]
    assert isinstance(answer, NotYet)
    assert "theirs" in answer.why
    site.tenant.delete(POOLS, "theirs", namespace="")
    assert await site.ask() == Proven()


async def test_a_pool_that_conflicts_with_another_is_emptied_too() -> None:
    site = Site()
    blocks = [{"cidr": "10.40.0.0/30"}]
    site.tenant.add(POOLS, {"metadata": {"name": "theirs"}, "spec": {"blocks": blocks}})
    await site.clock.advance(1)
    await site.project(FIRST)
    await site.ask_six_times()
    assert site.pool()["spec"]["blocks"] == []


async def test_a_missing_pool_proves_nothing() -> None:
    site = await _make_site()
    site.tenant.delete(POOLS, make_pool_name(FIRST), namespace="")
    answer = await site.ask()
    assert isinstance(answer, Unprovable)
    assert answer.version == ("no pool", 0)


async def test_a_kind_that_is_not_served_proves_nothing() -> None:
    answer = await Site("services").ask()
    assert isinstance(answer, Unprovable)
    assert answer.version == ("not served", 0)


async def test_without_an_operator_the_pool_is_emptied_and_the_release_waits_a_bounded_time() -> (
    None
):
    site = Site()
    site.operator.paused = True
    await site.project(FIRST)
    answers = [
        *await site.ask_six_times(),
        *await site.ask_six_times(),
        *await site.ask_six_times(),
    ]
    assert site.pool()["spec"]["blocks"] == []
    unprovable = [answer for answer in answers if isinstance(answer, Unprovable)]
    assert len({answer.version for answer in unprovable}) == 1
    assert isinstance(answers[-1], Unprovable)
    assert "unknown" in unprovable[0].purpose


async def test_the_pool_of_another_owner_is_left_alone() -> None:
    site = await _make_site()
    site.edit({"metadata": {"annotations": {names.ANNOTATION_PROJECTION_OWNER: "team/b"}}})
    before = site.pool()
    assert isinstance((await site.ask_six_times())[-1], NotYet)
    assert site.pool() == before


async def test_the_step_is_retried_at_once_if_only_counts_have_changed() -> None:
    site = await _make_site()
    balancer = site.balancer(BalancerMemory())
    reading = await balancer.read()
    site.add_service()  # the operator writes counts
    withdrawal = Withdrawal(
        FIRST, parse_ranges_of(FIRST), mark=MARK, position=MARK, owner=OWNER, note=NoNote()
    )
    await balancer.prove_withdrawal(reading, withdrawal)
    assert site.pool()["spec"]["disabled"] is True


# The following tests are about states of a pool that the stand-in for the operator does not reach.


def _make_pool(generation: int, observed: int, *, total: int = 0, used: int = 0) -> CiliumPool:
    """Return an emptied pool of the first allocation, with a status as the operator writes it.

    Args:
        generation: the generation of the pool.
        observed: the generation in the status.
        total: the number of addresses in the status.
        used: the number of used addresses in the status.
    """
    counts = {"cilium.io/IPsTotal": total, "cilium.io/IPsUsed": used}
    conditions: list[Json] = [
        {"type": kind, "message": str(number), "observedGeneration": observed}
        for kind, number in counts.items()
    ]
    annotations = {names.ANNOTATION_PROJECTION_BASIS: str(MARK), **OWNER}
    meta: Json = {"name": make_pool_name(FIRST), "uid": "u-2", "generation": generation}
    meta |= {"resourceVersion": "7", "annotations": annotations}
    spec: Json = {"blocks": [], "disabled": True}
    body = {"metadata": meta, "spec": spec, "status": {"conditions": conditions}}
    return msgspec.convert(body, CiliumPool)


def _decide(
    pool: CiliumPool, memory: ReleaseMemory, now: float = 0.0
) -> ReleaseWrite | Proven | None:
    """Return the proof of the release or the next write; None for a wait.

    The last write was at second 0; `now` is in seconds.
    """
    withdrawal = Withdrawal(
        FIRST, parse_ranges_of(FIRST), mark=MARK, position=MARK, owner=OWNER, note=NoNote()
    )
    step = decide_step({pool.metadata.name: pool}, withdrawal, memory=memory, now=now)
    return step.answer if isinstance(step.answer, Proven) else step.write


@pytest.mark.parametrize("observed", [2, 4], ids=["older", "of a deleted pool"])
def test_a_status_of_another_generation_is_no_acknowledgement(observed: int) -> None:
    memory = ReleaseMemory("u-2", 3, acknowledged=2)
    assert _decide(_make_pool(3, observed), memory) is None
    assert _decide(_make_pool(3, observed), memory, NONCE_SECONDS) is ReleaseWrite.NONCE
    assert _decide(_make_pool(3, 3), memory) == Proven()


def test_one_acknowledgement_is_no_proof_as_it_may_be_of_a_deleted_pool_of_that_name() -> None:
    memory = ReleaseMemory("u-2", 3)
    assert _decide(_make_pool(3, 3), memory) is ReleaseWrite.NONCE
    memory.note_write(_make_pool(4, 3), 1.0, LEADER_NOT_NEEDED)
    assert _decide(_make_pool(4, 3), memory) is None
    assert _decide(_make_pool(4, 4), memory) == Proven()


def test_acknowledgements_are_forgotten_if_the_pool_was_recreated() -> None:
    memory = ReleaseMemory("u-1", 2, acknowledged=1)
    memory.note_write(_make_pool(2, 2), 1.0, LEADER_NOT_NEEDED)
    assert memory.acknowledged is None


def test_a_generation_that_this_process_did_not_write_is_no_acknowledgement() -> None:
    for memory in (
        ReleaseMemory(),
        ReleaseMemory("u-2", 2, acknowledged=1),
        ReleaseMemory("u-1", 3, acknowledged=1),
    ):
        assert _decide(_make_pool(3, 3), memory, 1.0) is None
        assert _decide(_make_pool(3, 3), memory, 1.0 + NONCE_SECONDS) is ReleaseWrite.NONCE


def test_a_status_that_still_counts_addresses_is_no_acknowledgement() -> None:
    assert _decide(_make_pool(3, 3, total=8), ReleaseMemory("u-2", 3, acknowledged=2)) is None


def test_a_pool_whose_basis_is_older_than_the_release_is_drained_again() -> None:
    pool = _make_pool(3, 3)
    annotations = {names.ANNOTATION_PROJECTION_BASIS: str(MARK - 1), **OWNER}
    older = replace(pool, metadata=replace(pool.metadata, annotations=annotations))
    assert _decide(older, ReleaseMemory("u-2", 3, acknowledged=2)) is ReleaseWrite.DRAIN
