"""A pool of Cluster API that is being deleted: its counts stay current while it waits."""

from typing import Any

from tests.reconcilers.integrations.clusterapi.test_unreadable import (
    CLAIMS,
    POOLS,
    SERVED,
    WITH_CLAIMS,
    address_of,
    claim,
    pool,
)
from tests.reconcilers.integrations.unreadable import Json, Site, site


def _counts(place: Site) -> Json:
    return dict(place.see(POOLS, "p")["status"]["ipAddresses"])


def _read_condition(place: Site) -> tuple[Any, Any]:
    ready = place.ready(POOLS, "p")
    return ready["reason"], ready["message"]


async def test_released_addresses_are_free_in_the_counts_of_a_pool_that_is_being_deleted() -> None:
    async with site(WITH_CLAIMS, *SERVED) as place:
        await pool(place, "p", 0)
        for name in ("a", "b"):
            await claim(place, name, "p")
        await place.home.pass_by(5)
        assert address_of(place, "b")
        await place.delete(POOLS, "p")
        await place.home.pass_by(15)
        assert _read_condition(place) == ("Deleting", "2 IPAddresses are in use")
        assert _counts(place) == {"total": 5, "used": 2, "free": 3, "outOfRange": 0}
        await place.delete(CLAIMS, "a")
        await place.home.pass_by(15)
        assert _read_condition(place) == ("Deleting", "1 IPAddress is in use")
        assert _counts(place) == {"total": 5, "used": 1, "free": 4, "outOfRange": 0}


async def test_a_pool_whose_spec_turns_invalid_still_says_what_its_deletion_waits_for() -> None:
    async with site(WITH_CLAIMS, *SERVED) as place:
        await pool(place, "p", 0)
        await claim(place, "a", "p")
        await place.home.pass_by(5)
        await place.delete(POOLS, "p")
        await place.edit(POOLS, "p", {"spec": {"addresses": ["nonsense"]}})
        await place.home.pass_by(15)
        assert _read_condition(place) == ("Deleting", "1 IPAddress is in use")
