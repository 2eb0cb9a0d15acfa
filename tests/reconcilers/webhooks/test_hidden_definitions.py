"""Webhooks that read ranges of claims, though they may not list CustomResourceDefinitions."""

from typing import Any

import msgspec
import pytest
from typing_extensions import override

from controller.client import Client
from controller.discovery import ABSENCE_SECONDS, REQUIRED_ABSENCES, AbsenceCounter
from controller.errors import DiscoveryIncomplete, Forbidden
from controller.testing.api import FakeApi
from controller.testing.clock import VirtualClock
from reconcilers.api.resources import NETWORK_POOL
from reconcilers.integrations.clusterapi import api
from reconcilers.integrations.clusterapi.heldranges import list_holdings
from reconcilers.integrations.clusterapi.validating import ClusterApiPoolValidator
from reconcilers.spaces.index import SpaceIndex

POOL = api.IN_CLUSTER_IP_POOL
SPEC = {"addresses": ["10.0.0.10-10.0.0.14"], "prefix": 24}


class HiddenDefinitions(FakeApi):
    """An API server that lets nobody list CustomResourceDefinitions."""

    @override
    async def request(self, method: str, path: str, *args: Any, **options: Any) -> Any:
        if "customresourcedefinitions" in path:
            raise Forbidden(403, "Forbidden", "no role")
        return await super().request(method, path, *args, **options)


class ClaimServer:
    """An API server that serves claims and IPAddresses in some versions, and a client of it."""

    def __init__(self, *versions: str) -> None:
        self.clock = VirtualClock()
        fake = HiddenDefinitions(self.clock)
        for version in versions:
            fake.serve(api.get_claim_kind(version))
            fake.serve(api.get_address_kind(version))
        self.client = Client(fake, absence_counter=AbsenceCounter(self.clock))

    async def create_address(self, version: str, kind: str, group: str) -> None:
        """Create an IPAddress of pool p, which is of this kind."""
        ref = {"apiGroup": group, "kind": kind, "name": "p"}
        spec = {"poolRef": ref, "address": "10.0.0.10", "prefix": 24, "claimRef": {"name": "c"}}
        body = {"metadata": {"name": "c"}, "spec": spec}
        await self.client.create(api.get_address_kind(version), "team", body)


def make_pool(kind: Any, spec: Any) -> Any:
    """Return the pool p of a kind."""
    return msgspec.convert(
        {"metadata": {"name": "p", "namespace": "team"}, "spec": spec}, kind.type
    )


async def test_ranges_of_claims_are_read_if_only_an_older_version_is_served() -> None:
    server = ClaimServer("v1beta1")
    await server.create_address("v1beta1", NETWORK_POOL.kind, NETWORK_POOL.group)
    holdings = await list_holdings(server.client, make_pool(NETWORK_POOL, {"cidr": "10.0.0.0/24"}))
    assert [holding.holder for holding in holdings.ranges] == ["IPAddressClaim team/c"]


async def test_the_deletion_of_a_used_pool_is_rejected_if_only_an_older_version_is_served() -> (
    None
):
    server = ClaimServer("v1beta1")
    await server.create_address("v1beta1", POOL.kind, POOL.group)
    validator = ClusterApiPoolValidator(server.client, POOL, SpaceIndex())
    assert not (await validator.review_deletion(make_pool(POOL, SPEC))).allowed


async def test_kinds_count_as_absent_only_after_several_answers_without_them() -> None:
    """Each review asks for all versions, so the absences of all versions are counted together."""
    server = ClaimServer()
    validator = ClusterApiPoolValidator(server.client, POOL, SpaceIndex())
    for _ in range(REQUIRED_ABSENCES - 1):
        with pytest.raises(DiscoveryIncomplete):
            await validator.review_deletion(make_pool(POOL, SPEC))
        await server.clock.advance(ABSENCE_SECONDS)
    assert (await validator.review_deletion(make_pool(POOL, SPEC))).allowed
