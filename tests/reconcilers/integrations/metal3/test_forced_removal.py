"""Claims of both kinds whose finalizers a person removes while a machine uses the address.

metal3's own controller leaves the IPAddress of such a claim behind for ever.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from controller.meta import Key
from controller.resource import Resource
from controller.testing import Request
from reconcilers.configuration.integrationnames import METAL3
from reconcilers.configuration.settings import Settings
from reconcilers.integrations.clusterapi import api as clusterapi
from reconcilers.integrations.metal3 import api
from tests.reconcilers.integrations.unreadable import Json, PlatformCluster, open_platform_cluster
from tests.reconcilers.test_sharing import NAMESPACE

CONTRACT_CLAIMS, CONTRACT_ADDRESSES = (
    clusterapi.get_claim_kind("v1beta2"),
    clusterapi.get_address_kind("v1beta2"),
)
ADDRESSES_OF: dict[str, tuple[Resource[Any], Resource[Any]]] = {
    "IPClaim": (api.CLAIMS, api.ADDRESSES),
    "IPAddressClaim": (CONTRACT_CLAIMS, CONTRACT_ADDRESSES),
}
CAPM3_FINALIZER = "metal3data.infrastructure.cluster.x-k8s.io"
"""CAPM3 adds it to a claim for as long as a machine uses the address."""
SETTLE_SECONDS = 2
"""Seconds after which every pass that a write causes is over."""
RESYNC_SECONDS = 60
"""Seconds after which every object was reconciled again."""


class PoolClaims:
    """The claims of one kind that name pool p, in a cluster with one replica.

    Args:
        cluster: the cluster and its replica.
        kind: of the claims: IPClaim or IPAddressClaim.
    """

    def __init__(self, cluster: PlatformCluster, kind: str) -> None:
        self.cluster = cluster
        self.claim_kind, self.address_kind = ADDRESSES_OF[kind]

    async def create(self, name: str, *finalizers: str) -> None:
        """Create a claim, and let the replica serve it."""
        reference = {"apiGroup": api.GROUP, "kind": api.POOL, "name": "p"}
        spec = {"poolRef": reference}
        if self.claim_kind == api.CLAIMS:
            spec = {"pool": {"name": "p"}}
        metadata = {"finalizers": [*finalizers]}
        await self.cluster.create_object(self.claim_kind, name, spec, metadata=metadata)
        await self.cluster.pass_by(SETTLE_SECONDS)

    async def remove_by_force(self, name: str) -> None:
        """Delete a claim without its finalizers, and let the replica react."""
        await self.cluster.remove_by_force(self.claim_kind, name)
        await self.cluster.pass_by(SETTLE_SECONDS)

    def find_address(self, name: str) -> str:
        """Return the address of a claim; empty if its status names no IPAddress."""
        status = self.cluster.get_stored(self.claim_kind, name).get("status", {})
        reference: Json = status.get("address") or status.get("addressRef") or {}
        address = self.cluster.get_stored(self.address_kind, reference.get("name", ""))
        return str(address.get("spec", {}).get("address", ""))

    def has_ipaddress(self, name: str) -> bool:
        """Return whether an IPAddress of that name exists."""
        return bool(self.cluster.get_stored(self.address_kind, name))


@asynccontextmanager
async def serve_claims(kind: str) -> AsyncIterator[PoolClaims]:
    """Serve pool p, which has the addresses 10.0.0.1 to 10.0.0.9; yield its claims of a kind."""
    kinds = (
        *api.KINDS,
        CONTRACT_CLAIMS,
        CONTRACT_ADDRESSES,
        clusterapi.get_cluster_kind("v1beta2"),
    )
    async with open_platform_cluster(Settings(integration=(METAL3,)), *kinds) as cluster:
        entries = [{"start": "10.0.0.1", "end": "10.0.0.9"}]
        await cluster.create_object(api.POOLS, "p", {"namePrefix": "p", "pools": entries})
        yield PoolClaims(cluster, kind)


@pytest.mark.parametrize("kind", ADDRESSES_OF)
async def test_an_address_in_use_is_kept_until_its_claim_is_removed_by_force(kind: str) -> None:
    async with serve_claims(kind) as claims:
        await claims.create("a", CAPM3_FINALIZER)
        assert claims.find_address("a") == "10.0.0.1"
        await claims.cluster.pass_by(RESYNC_SECONDS)
        await claims.cluster.delete(claims.claim_kind, "a")
        await claims.cluster.pass_by(RESYNC_SECONDS)
        await claims.create("b")
        assert claims.find_address("a") == "10.0.0.1", "the finalizer of CAPM3 keeps claim a"
        assert claims.find_address("b") == "10.0.0.2"
        await claims.cluster.edit(claims.claim_kind, "a", {"metadata": {"finalizers": None}})
        await claims.cluster.pass_by(SETTLE_SECONDS)
        assert not claims.cluster.get_stored(claims.claim_kind, "a")
        assert not claims.has_ipaddress("p-10-0-0-1")
        await claims.create("c")
        assert claims.find_address("c") == "10.0.0.1"


@pytest.mark.parametrize("kind", ADDRESSES_OF)
async def test_a_claim_recreated_after_its_removal_by_force_gets_its_address_back(
    kind: str,
) -> None:
    async with serve_claims(kind) as claims:
        await claims.create("a", CAPM3_FINALIZER)
        await claims.remove_by_force("a")
        await claims.create("b")
        assert claims.find_address("b") == "10.0.0.2", "the IPAddress of the earlier claim exists"
        await claims.create("a")
        assert claims.find_address("a") == "10.0.0.1"
        await claims.cluster.pass_by(2 * RESYNC_SECONDS)
        assert claims.find_address("a") == "10.0.0.1"
        assert claims.find_address("b") == "10.0.0.2"


@pytest.mark.parametrize("kind", ADDRESSES_OF)
async def test_the_ipaddress_of_a_claim_removed_by_force_is_deleted_within_a_minute(
    kind: str,
) -> None:
    async with serve_claims(kind) as claims:
        await claims.create("a")
        await claims.remove_by_force("a")
        assert claims.has_ipaddress("p-10-0-0-1"), "a restore may create the claim again"
        await claims.cluster.pass_by(RESYNC_SECONDS)
        assert not claims.has_ipaddress("p-10-0-0-1")
        await claims.create("b")
        assert claims.find_address("b") == "10.0.0.1"


@pytest.mark.parametrize("kind", ADDRESSES_OF)
async def test_an_address_that_no_status_named_is_free_once_its_claim_is_gone(kind: str) -> None:
    async with serve_claims(kind) as claims:
        api_server = claims.cluster.api

        def remove_claim(request: Request) -> None:
            """Remove claim a by force while its IPAddress is created."""
            if (request.method, request.resource) == ("POST", claims.address_kind.full_name):
                api_server.on_request = None
                api_server.remove_object(claims.claim_kind, Key(NAMESPACE, "a"))

        api_server.on_request = remove_claim
        await claims.create("a")
        assert not claims.cluster.get_stored(claims.claim_kind, "a")
        assert not claims.has_ipaddress("p-10-0-0-1")
        await claims.create("b")
        assert claims.find_address("b") == "10.0.0.1"
