"""What goes wrong with the real operator while a range is released: it is never free too early.

Services show addresses of the range, a rival waits for it, and both sides are recorded.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import anyio
import pytest

from allocator import AddressRange
from controller.codec import Page
from controller.meta import Key
from envtest.lbipam import lbipam_definitions
from envtest.settings import read_settings
from reconcilers.api.services import SERVICE
from reconcilers.integrations.core.discovery import DEFINITIONS
from reconcilers.loadbalancers.cilium.pools import (
    CILIUM_POOL,
    CILIUM_POOL_ALPHA,
    CiliumPool,
    is_acknowledged,
)
from tests.cilium.conftest import NEWEST, from_the_oldest, on_the_oldest, require_operator
from tests.cilium.contest import SERVICES, Contest, contest
from tests.cilium.operators import Operator
from tests.edits import edit
from tests.polling import keep_looking, until

pytestmark = pytest.mark.slow
STEADY = 3.0
"""For how many seconds it is watched that nothing happens."""
STUCK = SERVICES[0]
PATIENT = "--cilium-wait=10m"
"""So that only a proof releases a range within the time of a test."""


async def test_a_service_that_the_operator_cannot_rewrite_keeps_its_range(
    program: Path, tmp_path: Path
) -> None:
    async with contest(tmp_path, PATIENT) as race:
        race.operator(program)
        allocated_range = await race.begin()
        path = f"/api/v1/namespaces/default/services/{STUCK}/status"
        only_others = f"object.metadata.name != '{STUCK}'"
        async with race.refuse("/services/status", path, only_others):
            await race.delete()
            await race.waits_because(f"Service default/{STUCK} still shows an address")
            await until(race.tenant.addresses, lambda shown_addresses: STUCK in shown_addresses)
            await stays_kept(race)
        await touched_until_lost(race, allocated_range)


async def touched_until_lost(race: Contest, allocated_range: AddressRange) -> None:
    """Touch Services until the operator has rewritten all of them, as our page advises.

    Up to Cilium 1.19 the operator gives up at the first refusal: it rewrites no Service that comes
    later in its own order.
    """
    touches = 0

    async def touch() -> bool:
        nonlocal touches
        touches += 1
        change = {"metadata": {"annotations": {"touched": str(touches)}}}
        left_behind = [
            name
            for name, address in (await race.tenant.addresses()).items()
            if address and allocated_range.contains(address)
        ]
        for name in left_behind:
            await edit(race.client, SERVICE, key=Key("default", name), change=change)
        return not left_behind

    await until(touch, bool)
    await race.lost(allocated_range)


async def stays_kept(race: Contest) -> None:
    """Look for a while at the range: the rival does not get it."""
    assert all(await keep_looking(race.is_kept, STEADY))


async def test_an_acknowledgement_that_was_refused_is_brought_by_a_nonce(
    program: Path, tmp_path: Path
) -> None:
    async with contest(tmp_path, PATIENT) as race:
        race.operator(program)
        allocated_range = await race.begin()
        await race.tenant.stop_serving(*SERVICES)
        [pool] = (await race.client.list(CILIUM_POOL)).items
        plural = "ciliumloadbalancerippools"
        path = f"/apis/cilium.io/v2/{plural}/{pool.metadata.name}/status"
        async with race.refuse(f"cilium.io/{plural}/status", path, "false"):
            await race.delete()
            await race.waits_because("has not acknowledged the pool")
            await stays_kept(race)
        await race.lost(allocated_range)


@on_the_oldest
async def test_a_range_is_kept_while_the_operator_is_down_and_is_lost_after_its_restart(
    program: Path, tmp_path: Path
) -> None:
    """The next one acknowledges what was written meanwhile before it rewrites any Service."""
    async with contest(tmp_path, "--cilium-wait=2s") as race:
        operator = race.operator(program)
        allocated_range = await race.begin()
        operator.stop()
        await race.delete()
        await race.waits_because("Service default/")
        await stays_kept(race)
        race.operator(program)
        await race.lost(allocated_range)


async def test_an_edit_that_was_undone_while_the_operator_did_not_look_hinders_no_release(
    program: Path, tmp_path: Path
) -> None:
    """The operator never acknowledges such a pool by itself: its spec is as it was read before."""
    async with contest(tmp_path, PATIENT) as race:
        operator = race.operator(program)
        allocated_range = await race.begin()
        [pool] = (await race.client.list(CILIUM_POOL)).items
        read_pool = partial(race.client.get, CILIUM_POOL, pool.metadata.key)
        with frozen(operator):
            await edit(
                race.client,
                CILIUM_POOL,
                key=pool.metadata.key,
                change={"spec": {"disabled": True}},
            )
            await until(read_pool, lambda live: not live.spec.disabled)
        await until(read_pool, is_acknowledged)
        await race.delete()
        await race.lost(allocated_range)


async def test_an_unreadable_block_keeps_no_deleted_range(program: Path, tmp_path: Path) -> None:
    """The operator never acknowledges a pool with such a block as what it is."""
    async with contest(tmp_path, PATIENT) as race:
        operator = race.operator(program)
        allocated_range = await race.begin()
        [pool] = (await race.client.list(CILIUM_POOL)).items
        read_pool = partial(race.client.get, CILIUM_POOL, pool.metadata.key)
        with frozen(operator):
            await race.delete()
            await until(read_pool, lambda live: live.spec.disabled)
            blocks = [{"start": block.start, "stop": block.stop} for block in pool.blocks]
            change = {"spec": {"blocks": [*blocks, {"start": "nonsense"}]}}
            await edit(race.client, CILIUM_POOL, key=pool.metadata.key, change=change)
        await race.lost(allocated_range)


@contextmanager
def frozen(operator: Operator) -> Iterator[None]:
    """Freeze an operator for the time of the context."""
    operator.freeze()
    try:
        yield
    finally:
        operator.thaw()


@pytest.mark.parametrize("is_begun", [False, True], ids=["before", "in the middle"])
async def test_a_range_is_kept_while_the_operator_is_frozen(
    program: Path, tmp_path: Path, is_begun: bool
) -> None:
    async with contest(tmp_path, PATIENT) as race:
        operator = race.operator(program)
        allocated_range = await race.begin()
        async with anyio.create_task_group() as group:
            group.start_soon(come_and_go, race)
            if is_begun:
                await race.delete()
            with frozen(operator):
                await race.delete()
                if not is_begun:
                    await race.waits_because("Service default/")
                kept = await keep_looking(race.is_kept, STEADY)
                assert is_begun or all(kept)
            await race.lost(allocated_range)
            group.cancel_scope.cancel()


async def come_and_go(race: Contest) -> None:
    """Delete and create a Service in turn."""
    while True:
        await race.tenant.create_service("guest")
        await anyio.sleep(0.1)
        await race.tenant.stop_serving("guest")


@from_the_oldest
async def test_a_release_goes_on_under_the_operator_that_replaces_another(
    before: str, tmp_path: Path
) -> None:
    """A Deployment is updated: the new operator waits for the Lease that the old one returns."""
    old, new = require_operator(before), require_operator(NEWEST)
    async with contest(tmp_path) as race:
        operator = race.operator(old)
        allocated_range = await race.begin()
        race.operator(new)
        with frozen(operator):
            await race.delete()
            await race.waits_because("Service default/")
        operator.stop()
        await race.lost(allocated_range)


@from_the_oldest
async def test_a_release_that_began_by_the_older_version_of_pools_ends_by_the_newer_one(
    before: str, tmp_path: Path
) -> None:
    """The operator is stopped for an upgrade, and the definition gets another version."""
    old, new = require_operator(before), require_operator(NEWEST)
    async with contest(tmp_path) as race:
        operator = race.operator(old)
        allocated_range = await race.begin()
        operator.stop()
        await serve(race, CILIUM_POOL_ALPHA.version)
        await race.delete()
        await until(lambda: race.client.list(CILIUM_POOL_ALPHA), is_drained)
        await race.waits_because("Service default/")
        await serve(race, CILIUM_POOL_ALPHA.version, CILIUM_POOL.version)
        await stays_kept(race)
        race.operator(new)
        await race.lost(allocated_range)


def is_drained(page: Page[CiliumPool]) -> bool:
    """Return whether no pool gives a Service an address."""
    return all(pool.spec.disabled or not pool.blocks for pool in page.items)


async def serve(race: Contest, *versions: str) -> None:
    """Have the tenant serve these versions of pools and no other."""
    [definition] = await lbipam_definitions(read_settings())
    for version in definition["spec"]["versions"]:
        version["served"] = version["name"] in versions
    change = {"spec": {"versions": definition["spec"]["versions"]}}
    await edit(
        race.client, DEFINITIONS, key=Key("", definition["metadata"]["name"]), change=change
    )


async def test_a_range_is_kept_for_a_while_after_another_operator_took_the_lease(
    program: Path, tmp_path: Path
) -> None:
    """The leader stands still for longer than its Lease, and goes on beside the next one.

    A whole operator needs some seconds from the Lease to its first look at a pool.
    """
    async with contest(tmp_path, "--cilium-wait=30s") as race:
        leader = race.operator(program)
        allocated_range = await race.begin()
        race.operator(program)
        async with anyio.create_task_group() as group:
            group.start_soon(come_and_go, race)
            with frozen(leader):
                await race.delete()
                await race.waits_because("took the Lease")
                await stays_kept(race)
            await race.lost(allocated_range)
            group.cancel_scope.cancel()
