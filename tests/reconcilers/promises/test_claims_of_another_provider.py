"""Claims that another provider of addresses served stay Ready even if we cannot serve them."""

from collections.abc import Awaitable, Callable

import pytest

from reconcilers.integrations.clusterapi import api
from tests.reconcilers.integrations.unreadable import Json, PlatformCluster
from tests.reconcilers.promises.refusing import (
    ADDRESSES,
    CLAIMS,
    GREEDY,
    REFUSAL,
    ClaimPool,
    Gate,
    gate,
    open_pool,
)

__all__ = ["gate"]


POOL: Json = {"apiGroup": api.GROUP, "kind": "GlobalInClusterIPPool", "name": "p"}


async def _create_served_claim(
    cluster: PlatformCluster, name: str, ref: Json, *, has_address: bool = True, claim: str = ""
) -> None:
    """Create a claim that is Ready, and the IPAddress that its addressRef names.

    Args:
        cluster: serves the pool.
        name: the name of the claim and of the IPAddress.
        ref: the reference to the pool.
        has_address: whether the IPAddress exists.
        claim: the claim that the IPAddress names; empty for the created one.
    """
    if has_address:
        for_claim = {"name": claim or name}
        spec = {"address": "10.0.0.77", "prefix": 20, "claimRef": for_claim, "poolRef": ref}
        await cluster.create_object(ADDRESSES, name, spec, namespace=GREEDY)
    ready = {
        "type": "Ready",
        "status": "True",
        "reason": "Allocated",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    status = {"addressRef": {"name": name}, "conditions": [ready]}
    await cluster.create_object(CLAIMS, name, {"poolRef": ref}, namespace=GREEDY, status=status)


async def test_a_claim_with_an_address_stays_ready_although_its_promise_is_voided(
    gate: Gate,
) -> None:
    async with open_pool(ClaimPool) as pool:
        cluster, name = pool.cluster, f"{GREEDY}-000"
        gate.refuses = lambda sent: sent.method != "POST" and pool.is_keep(sent)
        await _create_served_claim(cluster, name, POOL)
        await cluster.pass_by(10)
        assert REFUSAL in pool.read_reason(name)
        assert cluster.get_ready_condition(CLAIMS, name, GREEDY)["status"] == "True"


async def _block_by_an_invalid_spec(cluster: PlatformCluster) -> Json:
    """Make the pool invalid; return the reference for claims."""
    await cluster.edit(api.GLOBAL_IP_POOL, "p", {"spec": {"addresses": ["nonsense"]}})
    return POOL


async def _block_by_another_holder(cluster: PlatformCluster) -> Json:
    """Let another claim have the address; return the reference for claims."""
    await _create_served_claim(cluster, "other", POOL)
    await cluster.pass_by(10)
    return POOL


async def _name_a_missing_pool(cluster: PlatformCluster) -> Json:
    """Return a reference to a pool that does not exist."""
    del cluster
    return POOL | {"name": "missing"}


@pytest.mark.parametrize(
    ("block", "why"),
    [
        (_block_by_an_invalid_spec, "is not ready"),
        (_block_by_another_holder, "other has 10.0.0.77 too"),
        (_name_a_missing_pool, "does not exist"),
    ],
    ids=["the pool's spec is invalid", "another claim has the address", "the pool is missing"],
)
async def test_a_claim_with_an_address_stays_ready_and_says_why_we_cannot_serve_it(
    block: Callable[[PlatformCluster], Awaitable[Json]], why: str
) -> None:
    async with open_pool(ClaimPool) as pool:
        cluster = pool.cluster
        ref = await block(cluster)
        await _create_served_claim(cluster, GREEDY, ref)
        await cluster.pass_by(10)
        ready = cluster.get_ready_condition(CLAIMS, GREEDY, GREEDY)
        assert why in ready["message"]
        assert ready["status"] == "True"
        before = cluster.get_stored(CLAIMS, GREEDY, GREEDY)["metadata"]["resourceVersion"]
        await cluster.pass_by(300)
        assert cluster.get_stored(CLAIMS, GREEDY, GREEDY)["metadata"]["resourceVersion"] == before


@pytest.mark.parametrize(
    ("has_address", "claim"),
    [(False, ""), (True, "stranger")],
    ids=["no IPAddress", "another claim's IPAddress"],
)
async def test_a_claim_whose_addressref_names_no_ipaddress_of_it_is_not_ready(
    has_address: bool, claim: str
) -> None:
    async with open_pool(ClaimPool) as pool:
        cluster = pool.cluster
        ref = await _block_by_an_invalid_spec(cluster)
        await _create_served_claim(cluster, GREEDY, ref, has_address=has_address, claim=claim)
        await cluster.pass_by(10)
        ready = cluster.get_ready_condition(CLAIMS, GREEDY, GREEDY)
        assert (ready["status"], ready["reason"]) == ("False", "PoolNotReady")
