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
from tests.reconcilers.integrations.unreadable import Json, Site, site
from tests.reconcilers.test_sharing import NAMESPACE

CONTRACT_CLAIMS, CONTRACT_ADDRESSES = clusterapi.claims("v1beta2"), clusterapi.addresses("v1beta2")
ADDRESSES_OF: dict[str, tuple[Resource[Any], Resource[Any]]] = {
    "IPClaim": (api.CLAIMS, api.ADDRESSES),
    "IPAddressClaim": (CONTRACT_CLAIMS, CONTRACT_ADDRESSES),
}
OF_CAPM3 = "metal3data.infrastructure.cluster.x-k8s.io"
"""The finalizer that a consumer puts on every claim, for as long as a machine has the address."""


class ClaimsOfPool:
    """Claims of one kind, of the pool p.

    Args:
        place: the cluster.
        kind: of the claims.
    """

    def __init__(self, place: Site, kind: str) -> None:
        self.place = place
        self.claims, self.addresses = ADDRESSES_OF[kind]

    async def ask(self, name: str, *finalizers: str) -> None:
        """Create a claim."""
        reference = {"apiGroup": api.GROUP, "kind": api.POOL, "name": "p"}
        spec = {"pool": {"name": "p"}} if self.claims == api.CLAIMS else {"poolRef": reference}
        metadata = {"finalizers": [*finalizers]}
        await self.place.make(self.claims, name, spec, metadata=metadata)
        await self.place.home.pass_by(2)

    def address(self, name: str) -> str:
        """Return the address of a claim; empty if its status names no IPAddress."""
        status = self.place.see(self.claims, name).get("status", {})
        reference: Json = status.get("address") or status.get("addressRef") or {}
        address = self.place.see(self.addresses, reference.get("name", ""))
        return str(address.get("spec", {}).get("address", ""))

    async def remove(self, name: str) -> None:
        """Delete a claim, finalizers or not."""
        await self.place.remove(self.claims, name)
        await self.place.home.pass_by(2)


@asynccontextmanager
async def open_claims(kind: str) -> AsyncIterator[ClaimsOfPool]:
    """Return the claims of a kind of a pool with nine addresses."""
    kinds = (*api.KINDS, CONTRACT_CLAIMS, CONTRACT_ADDRESSES, clusterapi.clusters("v1beta2"))
    async with site(Settings(integration=(METAL3,)), *kinds) as place:
        entries = [{"start": "10.0.0.1", "end": "10.0.0.9"}]
        await place.make(api.POOLS, "p", {"namePrefix": "p", "pools": entries})
        yield ClaimsOfPool(place, kind)


@pytest.mark.parametrize("kind", ADDRESSES_OF)
async def test_an_address_in_use_is_kept_until_its_claim_is_removed_by_force(kind: str) -> None:
    async with open_claims(kind) as claims:
        await claims.ask("a", OF_CAPM3)
        assert claims.address("a") == "10.0.0.1"
        await claims.place.home.pass_by(60)
        await claims.place.delete(claims.claims, "a")
        await claims.place.home.pass_by(60)
        await claims.ask("b")
        assert (claims.address("a"), claims.address("b")) == ("10.0.0.1", "10.0.0.2")
        await claims.place.edit(claims.claims, "a", {"metadata": {"finalizers": None}})
        await claims.place.home.pass_by(2)
        assert not claims.place.see(claims.claims, "a")
        assert not claims.place.see(claims.addresses, "p-10-0-0-1")
        await claims.ask("c")
        assert claims.address("c") == "10.0.0.1"


@pytest.mark.parametrize("kind", ADDRESSES_OF)
async def test_a_claim_recreated_after_its_removal_by_force_gets_its_address_back(
    kind: str,
) -> None:
    async with open_claims(kind) as claims:
        await claims.ask("a", OF_CAPM3)
        await claims.remove("a")
        await claims.ask("b")
        assert claims.address("b") == "10.0.0.2", "the IPAddress of the earlier claim is there"
        await claims.ask("a")
        assert claims.address("a") == "10.0.0.1"
        await claims.place.home.pass_by(120)
        assert (claims.address("a"), claims.address("b")) == ("10.0.0.1", "10.0.0.2")


@pytest.mark.parametrize("kind", ADDRESSES_OF)
async def test_nothing_is_left_of_a_claim_that_is_removed_by_force_at_once(kind: str) -> None:
    async with open_claims(kind) as claims:
        await claims.ask("a")
        await claims.remove("a")
        assert claims.place.see(claims.addresses, "p-10-0-0-1"), "a restore may bring its claim"
        await claims.place.home.pass_by(60)
        assert not claims.place.see(claims.addresses, "p-10-0-0-1")
        await claims.ask("b")
        assert claims.address("b") == "10.0.0.1"


@pytest.mark.parametrize("kind", ADDRESSES_OF)
async def test_an_address_that_no_status_named_is_free_once_its_claim_is_gone(kind: str) -> None:
    async with open_claims(kind) as claims:
        api_server = claims.place.home.api

        def remove_claim(request: Request) -> None:
            """Let the claim go while its IPAddress is created."""
            if (request.method, request.resource) == ("POST", claims.addresses.full_name):
                api_server.on_request = None
                api_server.remove_object(claims.claims, Key(NAMESPACE, "a"))

        api_server.on_request = remove_claim
        await claims.ask("a")
        assert not claims.place.see(claims.claims, "a")
        assert not claims.place.see(claims.addresses, "p-10-0-0-1")
        await claims.ask("b")
        assert claims.address("b") == "10.0.0.1"
