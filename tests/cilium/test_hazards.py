"""Faults of the real operator while a range is released: the range is never free too early.

Services show addresses of the range, a rival waits for it, and both clusters are recorded.
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
from envtest.lbipam import read_lbipam_definitions
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
from tests.cilium.operators import Operator
from tests.cilium.rivalry import SERVICES, RivalSetup, run_with_rival
from tests.edits import edit
from tests.polling import keep_looking, until

pytestmark = pytest.mark.slow
WATCH_SECONDS = 3.0
"""For which tests check that nothing happens."""
STUCK = SERVICES[0]
LONG_WAIT_FLAG = "--cilium-wait=10m"
"""With this wait, only a proof releases a range within the time of a test."""


async def test_a_service_that_the_operator_cannot_rewrite_keeps_its_range(
    program: Path, tmp_path: Path
) -> None:
    async with run_with_rival(tmp_path, LONG_WAIT_FLAG) as setup:
        setup.start_operator(program)
        allocated_range = await setup.serve_with_rival()
        path = f"/api/v1/namespaces/default/services/{STUCK}/status"
        only_others = f"object.metadata.name != '{STUCK}'"
        async with setup.refuse_updates("/services/status", path, only_others):
            await setup.delete_allocation()
            await setup.wait_for_message(f"Service default/{STUCK} still shows an address")
            await until(
                setup.tenant.read_addresses, lambda shown_addresses: STUCK in shown_addresses
            )
            await check_rival_keeps_waiting(setup)
        await touch_services_until_rival_has(setup, allocated_range)


async def touch_services_until_rival_has(setup: RivalSetup, allocated_range: AddressRange) -> None:
    """Annotate Services until the operator has rewritten all of them, as our page advises.

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
            for name, address in (await setup.tenant.read_addresses()).items()
            if address and allocated_range.contains(address)
        ]
        for name in left_behind:
            await edit(setup.client, SERVICE, key=Key("default", name), change=change)
        return not left_behind

    await until(touch, bool)
    await setup.wait_until_rival_has(allocated_range)


async def check_rival_keeps_waiting(setup: RivalSetup) -> None:
    """Check for WATCH_SECONDS that the rival does not get the range."""
    assert all(await keep_looking(setup.is_rival_waiting, WATCH_SECONDS))


async def test_a_refused_acknowledgement_is_repeated_after_a_nonce_is_written(
    program: Path, tmp_path: Path
) -> None:
    async with run_with_rival(tmp_path, LONG_WAIT_FLAG) as setup:
        setup.start_operator(program)
        allocated_range = await setup.serve_with_rival()
        await setup.tenant.stop_serving(*SERVICES)
        [pool] = (await setup.client.list(CILIUM_POOL)).items
        plural = "ciliumloadbalancerippools"
        path = f"/apis/cilium.io/v2/{plural}/{pool.metadata.name}/status"
        async with setup.refuse_updates(f"cilium.io/{plural}/status", path, "false"):
            await setup.delete_allocation()
            await setup.wait_for_message("has not acknowledged the pool")
            await check_rival_keeps_waiting(setup)
        await setup.wait_until_rival_has(allocated_range)


@on_the_oldest
async def test_a_range_is_kept_while_the_operator_is_down_and_released_after_its_restart(
    program: Path, tmp_path: Path
) -> None:
    """The next operator acknowledges the pools before it rewrites any Service."""
    async with run_with_rival(tmp_path, "--cilium-wait=2s") as setup:
        operator = setup.start_operator(program)
        allocated_range = await setup.serve_with_rival()
        operator.stop()
        await setup.delete_allocation()
        await setup.wait_for_message("Service default/")
        await check_rival_keeps_waiting(setup)
        setup.start_operator(program)
        await setup.wait_until_rival_has(allocated_range)


async def test_an_edit_that_was_undone_while_the_operator_was_frozen_does_not_stop_a_release(
    program: Path, tmp_path: Path
) -> None:
    """The operator does not acknowledge such a pool by itself, because the spec is as before."""
    async with run_with_rival(tmp_path, LONG_WAIT_FLAG) as setup:
        operator = setup.start_operator(program)
        allocated_range = await setup.serve_with_rival()
        [pool] = (await setup.client.list(CILIUM_POOL)).items
        read_pool = partial(setup.client.get, CILIUM_POOL, pool.metadata.key)
        with frozen(operator):
            await edit(
                setup.client,
                CILIUM_POOL,
                key=pool.metadata.key,
                change={"spec": {"disabled": True}},
            )
            await until(read_pool, lambda live: not live.spec.disabled)
        await until(read_pool, is_acknowledged)
        await setup.delete_allocation()
        await setup.wait_until_rival_has(allocated_range)


async def test_a_range_is_released_though_a_user_adds_an_unreadable_block_to_its_pool(
    program: Path, tmp_path: Path
) -> None:
    """The operator does not acknowledge a pool with such a block."""
    async with run_with_rival(tmp_path, LONG_WAIT_FLAG) as setup:
        operator = setup.start_operator(program)
        allocated_range = await setup.serve_with_rival()
        [pool] = (await setup.client.list(CILIUM_POOL)).items
        read_pool = partial(setup.client.get, CILIUM_POOL, pool.metadata.key)
        with frozen(operator):
            await setup.delete_allocation()
            await until(read_pool, lambda live: live.spec.disabled)
            blocks = [{"start": block.start, "stop": block.stop} for block in pool.blocks]
            change = {"spec": {"blocks": [*blocks, {"start": "nonsense"}]}}
            await edit(setup.client, CILIUM_POOL, key=pool.metadata.key, change=change)
        await setup.wait_until_rival_has(allocated_range)


@contextmanager
def frozen(operator: Operator) -> Iterator[None]:
    """Freeze an operator for the time of the context."""
    operator.freeze()
    try:
        yield
    finally:
        operator.thaw()


@pytest.mark.parametrize("deletes_before", [False, True], ids=["before", "in the middle"])
async def test_a_range_is_kept_while_the_operator_is_frozen(
    program: Path, tmp_path: Path, deletes_before: bool
) -> None:
    async with run_with_rival(tmp_path, LONG_WAIT_FLAG) as setup:
        operator = setup.start_operator(program)
        allocated_range = await setup.serve_with_rival()
        async with anyio.create_task_group() as group:
            group.start_soon(create_and_delete_service, setup)
            if deletes_before:
                await setup.delete_allocation()
            with frozen(operator):
                await setup.delete_allocation()
                if not deletes_before:
                    await setup.wait_for_message("Service default/")
                kept = await keep_looking(setup.is_rival_waiting, WATCH_SECONDS)
                assert deletes_before or all(kept)
            await setup.wait_until_rival_has(allocated_range)
            group.cancel_scope.cancel()


async def create_and_delete_service(setup: RivalSetup) -> None:
    """Delete and create a Service in turn."""
    while True:
        await setup.tenant.create_service("guest")
        await anyio.sleep(0.1)
        await setup.tenant.stop_serving("guest")


@from_the_oldest
async def test_a_release_goes_on_under_the_operator_that_replaces_another(
    before: str, tmp_path: Path
) -> None:
    """A Deployment is updated: the new operator waits for the Lease that the old one returns."""
    old, new = require_operator(before), require_operator(NEWEST)
    async with run_with_rival(tmp_path) as setup:
        operator = setup.start_operator(old)
        allocated_range = await setup.serve_with_rival()
        setup.start_operator(new)
        with frozen(operator):
            await setup.delete_allocation()
            await setup.wait_for_message("Service default/")
        operator.stop()
        await setup.wait_until_rival_has(allocated_range)


@from_the_oldest
async def test_a_release_that_began_by_the_older_version_of_pools_ends_by_the_newer_one(
    before: str, tmp_path: Path
) -> None:
    """The operator is stopped for an upgrade, and the definition gets another version."""
    old, new = require_operator(before), require_operator(NEWEST)
    async with run_with_rival(tmp_path) as setup:
        operator = setup.start_operator(old)
        allocated_range = await setup.serve_with_rival()
        operator.stop()
        await serve_versions(setup, CILIUM_POOL_ALPHA.version)
        await setup.delete_allocation()
        await until(lambda: setup.client.list(CILIUM_POOL_ALPHA), is_drained)
        await setup.wait_for_message("Service default/")
        await serve_versions(setup, CILIUM_POOL_ALPHA.version, CILIUM_POOL.version)
        await check_rival_keeps_waiting(setup)
        setup.start_operator(new)
        await setup.wait_until_rival_has(allocated_range)


def is_drained(page: Page[CiliumPool]) -> bool:
    """Return whether no pool gives a Service an address."""
    return all(pool.spec.disabled or not pool.blocks for pool in page.items)


async def serve_versions(setup: RivalSetup, *versions: str) -> None:
    """Have the tenant serve these versions of pools and no other."""
    [definition] = await read_lbipam_definitions(read_settings())
    for version in definition["spec"]["versions"]:
        version["served"] = version["name"] in versions
    change = {"spec": {"versions": definition["spec"]["versions"]}}
    await edit(
        setup.client, DEFINITIONS, key=Key("", definition["metadata"]["name"]), change=change
    )


async def test_a_range_is_kept_for_a_while_after_another_operator_took_the_lease(
    program: Path, tmp_path: Path
) -> None:
    """The leader stands still for longer than its Lease, and goes on beside the next one.

    A whole operator needs some seconds from the Lease to its first look at a pool.
    """
    async with run_with_rival(tmp_path, "--cilium-wait=30s") as setup:
        leader = setup.start_operator(program)
        allocated_range = await setup.serve_with_rival()
        setup.start_operator(program)
        async with anyio.create_task_group() as group:
            group.start_soon(create_and_delete_service, setup)
            with frozen(leader):
                await setup.delete_allocation()
                await setup.wait_for_message("took the Lease")
                await check_rival_keeps_waiting(setup)
            await setup.wait_until_rival_has(allocated_range)
            group.cancel_scope.cancel()
