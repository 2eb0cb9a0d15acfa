"""The integration of claims is off, and claims have addresses of NetworkPools from before."""

from allocator import AddressRange
from reconcilers.api.resources import NETWORK_POOL
from reconcilers.configuration.settings import Settings
from tests.reconcilers.integrations.clusterapi.test_unreadable import (
    ADDRESSES,
    CLAIMS,
    CLUSTERS,
    WITH_CLAIMS,
    address_of,
    claim,
)
from tests.reconcilers.integrations.unreadable import Json, Site, site
from tests.reconcilers.test_sharing import Replica

WITHOUT_CLAIMS = Settings()
SERVED = (CLAIMS, ADDRESSES, CLUSTERS)
REMOVED: Json = {"status": {"assignments": None, "revisions": None}}
LONG = 30.0
"""Seconds after which a pool reports what it waits for."""


async def _serve_claim_and_switch_off(place: Site) -> None:
    """Have a claim of pool `lab` served, and start the controller without the integration."""
    await place.home.pool("lab", 0)
    await claim(place, "machine", pool="lab", kind=NETWORK_POOL)
    await place.home.pass_by(5)
    assert address_of(place, "machine")
    place.home.settings = WITHOUT_CLAIMS
    await place.restart()


def _written_pools(replica: Replica) -> list[str]:
    """Return the writes of NetworkPools that a replica sent, and forget them."""
    sent = [path for method, path in replica.link.sent if method in {"PATCH", "PUT"}]
    replica.link.sent.clear()
    return [path for path in sent if "/networkpools/" in path]


async def test_a_pool_that_served_claims_hands_out_nothing_and_says_how_to_go_on() -> None:
    async with site(WITH_CLAIMS, *SERVED) as place:
        await _serve_claim_and_switch_off(place)
        await place.home.ask("one", "lab")
        await place.home.pass_by(LONG)
        assert await place.home.ranges() == {}
        ready = place.ready(NETWORK_POOL, "lab")
        assert ready["reason"] == "HoldersUnknown"
        assert "start the controller with --integration=clusterapi" in ready["message"]
        assert "set both fields to null" in ready["message"]


async def test_a_pool_is_served_again_once_the_integration_is_on_or_the_journal_is_gone() -> None:
    async with site(WITH_CLAIMS, *SERVED) as place:
        await _serve_claim_and_switch_off(place)
        await place.home.ask("one", "lab")
        await place.home.pass_by(LONG)
        place.home.settings = WITH_CLAIMS
        await place.restart()
        [(_, first, last)] = (await place.home.ranges()).values()
        held_address = AddressRange.parse(
            address_of(place, "machine"), address_of(place, "machine")
        )
        assert not first <= held_address.first <= last
        place.home.settings = WITHOUT_CLAIMS
        await place.restart()
        await place.remove(CLAIMS, "machine")
        await place.remove(ADDRESSES, "machine")
        await place.home.ask("two", "lab")
        await place.home.pass_by(LONG)
        assert set(await place.home.ranges()) == {"one"}
        await place.edit(NETWORK_POOL, "lab", dict(REMOVED))
        await place.home.pass_by(5)
        assert set(await place.home.ranges()) == {"one", "two"}
        assert place.ready(NETWORK_POOL, "lab")["reason"] == "Ready"


async def test_other_pools_are_served_and_no_kind_of_claims_is_read_without_the_integration() -> (
    None
):
    async with site(WITH_CLAIMS, *SERVED) as place:
        await _serve_claim_and_switch_off(place)
        await place.home.pool("other", 1)
        await place.home.ask("one", "other")
        await place.home.pass_by(LONG)
        assert {pool for pool, _, _ in (await place.home.ranges()).values()} == {"other"}
        sent = place.home.replicas[-1].link.sent
        assert sent
        assert [path for _, path in sent if CLAIMS.group in path] == []


async def test_a_pool_that_served_claims_is_not_deleted_without_the_integration() -> None:
    async with site(WITH_CLAIMS, *SERVED) as place:
        await _serve_claim_and_switch_off(place)
        await place.delete(NETWORK_POOL, "lab")
        await place.home.pass_by(LONG)
        ready = place.ready(NETWORK_POOL, "lab")
        assert ready["reason"] == "HoldersUnknown"
        assert ready["message"].startswith("the pool is not deleted until that is known")
        await place.edit(NETWORK_POOL, "lab", dict(REMOVED))
        await place.home.pass_by(5)
        assert place.see(NETWORK_POOL, "lab") == {}


async def _with_another_replica_that_serves_claims(place: Site) -> tuple[Replica, Replica]:
    """Return a replica without the integration and one with it, which both lead."""
    await _serve_claim_and_switch_off(place)
    place.stop()
    await place.home.pass_by(1)
    [without] = place.home.start("without", leader_elect=False)
    place.home.settings = WITH_CLAIMS
    [with_claims] = place.home.start("with", leader_elect=False)
    await place.home.pass_by(LONG)
    return without, with_claims


async def test_replicas_with_and_without_the_integration_do_not_write_in_turn() -> None:
    async with site(WITH_CLAIMS, *SERVED) as place:
        place.home.shards = 0
        replicas = await _with_another_replica_that_serves_claims(place)
        assert place.ready(NETWORK_POOL, "lab")["reason"] == "Ready"
        for replica in replicas:
            _written_pools(replica)
        await place.home.pass_by(300)
        assert [_written_pools(replica) for replica in replicas] == [[], []]
        await place.home.ask("one", "lab")
        await place.home.pass_by(LONG)
        assert set(await place.home.ranges()) == {"one"}
        assert place.ready(NETWORK_POOL, "lab")["reason"] == "Ready"


async def test_replicas_do_not_write_in_turn_about_a_pool_that_is_being_deleted() -> None:
    async with site(WITH_CLAIMS, *SERVED) as place:
        place.home.shards = 0
        replicas = await _with_another_replica_that_serves_claims(place)
        await place.home.ask("one", "lab")
        await place.home.pass_by(LONG)
        await place.delete(NETWORK_POOL, "lab")
        await place.home.pass_by(60)
        assert place.ready(NETWORK_POOL, "lab")["reason"] == "Deleting"
        for replica in replicas:
            _written_pools(replica)
        await place.home.pass_by(300)
        assert [_written_pools(replica) for replica in replicas] == [[], []]
