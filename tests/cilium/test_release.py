"""On the real LB-IPAM: no range is free while a Service shows an address of it, nor later."""

import anyio
import pytest

from controller.meta import Version
from reconcilers.loadbalancers.cilium.pools import CILIUM_POOL, make_pool_name
from reconcilers.loadbalancers.port import BalancerMemory, Proven, Unprovable
from tests.cilium.conftest import on_both
from tests.cilium.site import RealSite
from tests.polling import keep_looking, until
from tests.reconcilers.loadbalancers.cilium.site import FIRST, RANGES, SECOND

pytestmark = pytest.mark.slow
WATCH_SECONDS = 2.0
"""For which tests check that nothing happens."""


@on_both
async def test_a_range_is_served_and_released_while_services_come_and_go(site: RealSite) -> None:
    """The other range is served first, also by the older versions, which take the older pool."""
    await site.project_and_wait(SECOND)
    await site.project_and_wait(FIRST, SECOND)
    for number in range(9):
        await site.create_service(f"web-{number}")
    await until(site.list_users, bool)
    await site.delete_services(*(f"web-{number}" for number in range(3, 9)))
    async with anyio.create_task_group() as group:
        group.start_soon(_recreate_services, site)
        await site.withdraw()
        assert await _list_users_for(site, WATCH_SECONDS) == [], "shown after it was released"
        group.cancel_scope.cancel()


async def test_no_range_is_released_while_the_operator_is_frozen(site: RealSite) -> None:
    await site.project_and_wait(FIRST, SECOND)
    site.operator.freeze()
    answers = await site.keep_trying_to_prove(WATCH_SECONDS * 4)
    assert not any(isinstance(answer, Proven | Unprovable) for answer in answers)
    site.operator.thaw()
    await site.withdraw()


@pytest.mark.parametrize("asks", [1, 2])
async def test_an_operator_that_is_killed_in_the_middle_of_a_release_goes_on_with_it(
    site: RealSite, asks: int
) -> None:
    await site.project_and_wait(FIRST, SECOND)
    for _ in range(asks - 1):
        await site.try_to_prove()
    site.operator.freeze()  # what is written next it cannot have acknowledged when it is killed
    await site.try_to_prove()
    site.operator.kill()
    assert not any(
        isinstance(answer, Proven) for answer in await site.keep_trying_to_prove(WATCH_SECONDS)
    )
    site.operator.start()
    await site.withdraw()


async def test_another_process_finishes_a_release(site: RealSite) -> None:
    await site.project_and_wait(FIRST)
    await site.try_to_prove()
    site.release = BalancerMemory()
    await site.withdraw()


async def test_a_pool_that_was_edited_back_and_forth_unseen_is_acknowledged_after_a_nonce(
    site: RealSite,
) -> None:
    await site.project_and_wait(FIRST)
    site.operator.freeze()
    pool = await site.get_pool()
    for is_disabled in (True, False):
        pool = await site.client.patch(
            CILIUM_POOL, Version.from_object(pool), {"spec": {"disabled": is_disabled}}
        )
    site.operator.thaw()
    await site.withdraw()


async def test_a_pool_that_was_deleted_and_created_anew_unseen_is_released_by_its_own_status(
    site: RealSite,
) -> None:
    await site.project_and_wait(FIRST, SECOND)
    site.operator.freeze()
    await site.client.delete(CILIUM_POOL, Version.from_object(await site.get_pool()))
    await site.project(FIRST, SECOND)
    await site.try_to_prove()
    site.operator.thaw()
    await site.withdraw()
    assert (await site.get_pool()).blocks == ()


async def test_without_an_operator_the_answer_is_unknown_and_never_proven(site: RealSite) -> None:
    site.operator.kill()
    await site.project(FIRST)
    answers = await site.keep_trying_to_prove(WATCH_SECONDS * 8)
    assert not any(isinstance(answer, Proven) for answer in answers)
    assert isinstance(answers[-1], Unprovable)


async def test_an_emptied_pool_is_deleted_by_the_next_projection(site: RealSite) -> None:
    await site.project_and_wait(FIRST, SECOND)
    await site.withdraw()
    site.advance_basis()
    await site.project(SECOND)
    remaining = [pool.metadata.name for pool in (await site.client.list(CILIUM_POOL)).items]
    assert remaining == [make_pool_name(SECOND)]


async def test_growth_serves_a_waiting_service_at_once(site: RealSite) -> None:
    await site.project_and_wait(SECOND)
    for number in range(9):
        await site.create_service(f"web-{number}")
    await until(lambda: site.list_users(SECOND), lambda users: len(users) == 8)
    site.advance_basis()
    await site.project(FIRST, SECOND)
    await until(lambda: site.list_users(FIRST), lambda users: len(users) == 1, seconds=4)
    assert len(RANGES[FIRST]) == 2


async def _recreate_services(site: RealSite) -> None:
    """Delete and create the Services in turn."""
    number = 0
    while True:
        await site.delete_services(f"web-{number % 3}")
        await site.create_service(f"web-{number % 3}")
        number += 1
        await anyio.sleep(0.1)


async def _list_users_for(site: RealSite, seconds: float) -> list[str]:
    """Return the Services that show an address of the first range within so many seconds."""
    return [user for users in await keep_looking(site.list_users, seconds) for user in users]
