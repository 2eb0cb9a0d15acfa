"""A NetworkPool that is paused serves IPAllocations, and no claim."""

from collections.abc import Iterable
from typing import Any

import pytest

from reconcilers.api.resources import NETWORK_POOL
from reconcilers.integrations.clusterapi import api
from reconcilers.networkpool.statusjournal import JOURNAL_FIELDS
from tests.reconcilers.integrations.clusterapi.test_unreadable import (
    CLAIMS,
    SERVED,
    WITH_CLAIMS,
    address_of,
    claim,
)
from tests.reconcilers.integrations.unreadable import Site, site


async def annotate(place: Site, annotations: dict[str, str | None]) -> None:
    """Set or remove annotations of NetworkPool lab."""
    patch: dict[str, Any] = {"metadata": {"annotations": annotations}}
    await place.edit(NETWORK_POOL, "lab", patch)


async def lose_journal(place: Site, fields: Iterable[str] = JOURNAL_FIELDS) -> None:
    """Remove the journal of NetworkPool lab, or some fields of it."""
    await place.edit(NETWORK_POOL, "lab", {"status": dict.fromkeys(fields)})


@pytest.mark.parametrize("fields", [JOURNAL_FIELDS, {"journalOf"}], ids=["removed", "unsealed"])
async def test_a_journal_that_is_lost_during_a_pause_keeps_no_allocation_waiting(
    fields: Iterable[str],
) -> None:
    async with site(WITH_CLAIMS, *SERVED) as place:
        await place.home.pool("lab", 0)
        await place.home.pass_by(5)
        await annotate(place, {api.PAUSED: ""})
        await lose_journal(place, fields)
        await claim(place, "a", pool="lab", kind=NETWORK_POOL)
        await place.home.ask("x", "lab")
        await place.home.pass_by(10)
        assert set(await place.home.ranges()) == {"x"}
        assert address_of(place, "a") == ""
        await annotate(place, {api.PAUSED: None})
        await place.home.pass_by(5)
        assert address_of(place, "a") == "10.0.0.8"


async def test_the_fence_of_a_paused_pool_tells_its_waiting_claims_that_promises_are_void() -> (
    None
):
    async with site(WITH_CLAIMS, *SERVED) as place:
        await place.home.pool("lab", 0)
        await place.home.pass_by(5)
        await annotate(place, {api.PAUSED: ""})
        await claim(place, "a", pool="lab", kind=NETWORK_POOL)
        await place.home.pass_by(10)
        assert place.ready(CLAIMS, "a") == {}, "a pause alone is no reason to write a claim"
        await lose_journal(place)
        await place.home.pass_by(10)
        ready = place.ready(CLAIMS, "a")
        assert ready["reason"] == "PoolNotReady"
        assert "NetworkPool lab has no valid record of its promises" in ready["message"]
        assert "are void" in ready["message"]
        written = place.see(CLAIMS, "a")["metadata"]["resourceVersion"]
        await place.home.pass_by(60)
        assert place.see(CLAIMS, "a")["metadata"]["resourceVersion"] == written
