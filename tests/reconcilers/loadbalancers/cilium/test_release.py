"""A range is free only after the operator has acknowledged its pool without it, twice."""

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
    spans_of,
)
from tests.reconcilers.server import Json

MARK = 101


async def _site() -> Site:
    """Return a tenant with the pools of two allocations."""
    site = Site()
    await site.project(FIRST, SECOND)
    return site


async def test_a_range_is_disabled_then_emptied_and_then_released() -> None:
    site = await _site()
    assert isinstance(await site.ask(), NotYet)
    assert site.pool()["spec"]["disabled"] is True
    assert isinstance(await site.ask(), NotYet)
    assert site.pool()["spec"]["blocks"] == []
    assert await site.ask() == Proven()


async def test_a_release_leaves_the_pools_of_other_allocations_alone() -> None:
    site = await _site()
    before = site.pool(SECOND)["metadata"]["generation"]
    assert (await site.ask_often())[-1] == Proven()
    assert site.pool(SECOND)["metadata"]["generation"] == before


async def test_no_range_is_released_while_the_operator_stands_still() -> None:
    site = await _site()
    site.operator.paused = True
    for _ in range(10):
        answers = await site.ask_often()
        assert all(isinstance(answer, NotYet) for answer in answers)
    site.operator.resume()
    assert (await site.ask_often())[-1] == Proven()


@pytest.mark.parametrize("steps", [1, 2])
async def test_another_process_goes_on_with_a_release_and_relies_on_its_own_writes(
    steps: int,
) -> None:
    site = await _site()
    for _ in range(steps):
        await site.ask()
    site.releases[FIRST] = BalancerMemory()
    before = site.pool()
    assert isinstance(await site.ask(), NotYet)
    assert site.pool() == before, "the other process may be about to finish"
    await site.ask_often()
    assert site.pool()["spec"]["allowFirstLastIPs"] == "Yes"
    assert (await site.ask_often())[-1] == Proven()


async def test_an_acknowledgement_that_was_lost_is_asked_for_again() -> None:
    site = await _site()
    site.operator.loses_counts = True
    answers = await site.ask_often()
    assert all(isinstance(answer, NotYet) for answer in answers)
    generation = site.pool()["metadata"]["generation"]
    assert generation > 3, "a nonce followed"
    assert (await site.ask_often())[-1] == Proven()


async def test_a_pool_that_was_edited_back_and_forth_unseen_is_acknowledged_after_a_nonce() -> (
    None
):
    site = await _site()
    await site.ask()
    site.operator.paused = True
    site.edit({"spec": {"disabled": False}})
    site.edit({"spec": {"disabled": True}})
    site.operator.resume()
    assert all(isinstance(answer, NotYet) for answer in await site.ask_often())
    assert (await site.ask_often())[-1] == Proven()


async def test_two_processes_that_release_one_range_come_to_an_end() -> None:
    site = await _site()
    balancer_memory, other = BalancerMemory(), BalancerMemory()
    answers = []
    for _ in range(12):
        for memory in (balancer_memory, other):
            site.releases[FIRST] = memory
            answers.append(await site.ask())
            await site.clock.advance(1)
    assert Proven() in answers


async def test_the_ranges_of_an_edited_pool_are_taken_out() -> None:
    site = await _site()
    await site.ask()
    site.edit({"spec": {"blocks": [{"start": "nonsense"}]}})
    assert (await site.ask_often())[-1] == Proven()
    assert site.pool()["spec"]["blocks"] == []


async def test_a_range_that_the_operator_counts_as_used_is_in_use() -> None:
    site = await _site()
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
    assert (await site.ask_often())[-1] == Proven()


async def test_a_mark_that_is_withdrawn_gives_the_range_back_and_a_later_one_begins_anew() -> None:
    site = await _site()
    await site.ask()
    await site.ask()
    site.basis = 200
    await site.project(FIRST, SECOND)
    assert site.pool()["spec"]["disabled"] is False
    site.add_service()
    assert site.addresses() != []
    site.tenant.delete("services", "web", namespace="default")
    assert isinstance(await site.ask(), NotYet)
    assert (await site.ask_often())[-1] == Proven()


async def test_a_projection_from_before_the_mark_cannot_put_the_range_back() -> None:
    site = await _site()
    assert (await site.ask_often())[-1] == Proven()
    with pytest.raises(BalancerBlocked, match="newer state"):
        await site.project(FIRST, SECOND)
    assert site.pool()["spec"]["blocks"] == []


async def test_a_projection_that_read_the_pool_before_the_mark_conflicts() -> None:
    site = await _site()
    pool = (await site.balancer().read()).pools[make_pool_name(FIRST)]
    await site.ask()
    with pytest.raises(Conflict):
        await site.balancer()._pools.patch(pool, {"spec": {"disabled": False}})


async def test_a_range_that_another_pool_has_is_not_released() -> None:
    site = await _site()
    blocks = [{"cidr": "10.40.0.0/30"}]
    site.tenant.add(POOLS, {"metadata": {"name": "theirs"}, "spec": {"blocks": blocks}})
    answer = (await site.ask_often())[-1]
    assert isinstance(answer, NotYet)
    assert "theirs" in answer.why
    site.tenant.delete(POOLS, "theirs", namespace="")
    assert await site.ask() == Proven()


async def test_a_pool_in_conflict_is_emptied_all_the_same() -> None:
    site = Site()
    blocks = [{"cidr": "10.40.0.0/30"}]
    site.tenant.add(POOLS, {"metadata": {"name": "theirs"}, "spec": {"blocks": blocks}})
    await site.clock.advance(1)
    await site.project(FIRST)
    await site.ask_often()
    assert site.pool()["spec"]["blocks"] == []


async def test_a_missing_pool_proves_nothing() -> None:
    site = await _site()
    site.tenant.delete(POOLS, make_pool_name(FIRST), namespace="")
    answer = await site.ask()
    assert isinstance(answer, Unprovable)
    assert answer.version == ("no pool", 0)


async def test_a_kind_that_is_not_served_proves_nothing() -> None:
    answer = await Site("services").ask()
    assert isinstance(answer, Unprovable)
    assert answer.version == ("not served", 0)


async def test_without_an_operator_the_range_is_taken_out_and_one_bounded_wait_runs() -> None:
    site = Site()
    site.operator.paused = True
    await site.project(FIRST)
    answers = [*await site.ask_often(), *await site.ask_often(), *await site.ask_often()]
    assert site.pool()["spec"]["blocks"] == []
    unprovable = [answer for answer in answers if isinstance(answer, Unprovable)]
    assert len({answer.version for answer in unprovable}) == 1
    assert isinstance(answers[-1], Unprovable)
    assert "unknown" in unprovable[0].purpose


async def test_the_pool_of_another_owner_is_left_alone() -> None:
    site = await _site()
    site.edit({"metadata": {"annotations": {names.ANNOTATION_PROJECTION_OWNER: "team/b"}}})
    before = site.pool()
    assert isinstance((await site.ask_often())[-1], NotYet)
    assert site.pool() == before


async def test_the_step_is_retried_at_once_if_only_counts_have_changed() -> None:
    site = await _site()
    balancer = site.balancer(BalancerMemory())
    reading = await balancer.read()
    site.add_service()  # the operator writes counts
    withdrawal = Withdrawal(
        FIRST, spans_of(FIRST), mark=MARK, position=MARK, owner=OWNER, note=NoNote()
    )
    await balancer.prove_withdrawal(reading, withdrawal)
    assert site.pool()["spec"]["disabled"] is True


# Single states, where the stand-in does not go.


def _pool(generation: int, observed: int, *, total: int = 0, used: int = 0) -> CiliumPool:
    """Return an emptied pool of the first allocation as the operator may show it."""
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


def _step(
    pool: CiliumPool, memory: ReleaseMemory, waited: float = 0.0
) -> ReleaseWrite | Proven | None:
    withdrawal = Withdrawal(
        FIRST, spans_of(FIRST), mark=MARK, position=MARK, owner=OWNER, note=NoNote()
    )
    step = decide_step({pool.metadata.name: pool}, withdrawal, memory=memory, now=waited)
    return step.answer if isinstance(step.answer, Proven) else step.write


@pytest.mark.parametrize("observed", [2, 4], ids=["older", "of a deleted pool"])
def test_another_generation_is_no_acknowledgement(observed: int) -> None:
    memory = ReleaseMemory("u-2", 3, acknowledged=2)
    assert _step(_pool(3, observed), memory) is None
    assert _step(_pool(3, observed), memory, NONCE_SECONDS) is ReleaseWrite.NONCE
    assert _step(_pool(3, 3), memory) == Proven()


def test_one_acknowledgement_may_be_of_a_deleted_pool_of_that_name_and_needs_a_second() -> None:
    memory = ReleaseMemory("u-2", 3)
    assert _step(_pool(3, 3), memory) is ReleaseWrite.NONCE
    memory.note_write(_pool(4, 3), 1.0, LEADER_NOT_NEEDED)
    assert _step(_pool(4, 3), memory) is None
    assert _step(_pool(4, 4), memory) == Proven()


def test_acknowledgements_of_a_pool_that_was_created_anew_do_not_count() -> None:
    memory = ReleaseMemory("u-1", 2, acknowledged=1)
    memory.note_write(_pool(2, 2), 1.0, LEADER_NOT_NEEDED)
    assert memory.acknowledged is None


def test_a_generation_that_this_process_did_not_write_is_no_acknowledgement() -> None:
    for memory in (
        ReleaseMemory(),
        ReleaseMemory("u-2", 2, acknowledged=1),
        ReleaseMemory("u-1", 3, acknowledged=1),
    ):
        assert _step(_pool(3, 3), memory, 1.0) is None
        assert _step(_pool(3, 3), memory, 1.0 + NONCE_SECONDS) is ReleaseWrite.NONCE


def test_a_count_of_other_addresses_is_no_acknowledgement() -> None:
    assert _step(_pool(3, 3, total=8), ReleaseMemory("u-2", 3, acknowledged=2)) is None


def test_a_pool_with_an_older_basis_is_written_since_the_mark() -> None:
    pool = _pool(3, 3)
    annotations = {names.ANNOTATION_PROJECTION_BASIS: str(MARK - 1), **OWNER}
    older = replace(pool, metadata=replace(pool.metadata, annotations=annotations))
    assert _step(older, ReleaseMemory("u-2", 3, acknowledged=2)) is ReleaseWrite.DRAIN
