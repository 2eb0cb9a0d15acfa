"""Webhooks that read what claims hold where CustomResourceDefinitions may not be listed."""

from typing import Any

import msgspec
import pytest
from typing_extensions import override

from controller.client import Client
from controller.discovery import ABSENCE_SECONDS, ABSENCES, AbsenceCounter
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


class Site:
    """A server with the kinds of claims in some versions."""

    def __init__(self, *versions: str) -> None:
        self.clock = VirtualClock()
        fake = HiddenDefinitions(self.clock)
        for version in versions:
            fake.serve(api.claims(version))
            fake.serve(api.addresses(version))
        self.client = Client(fake, absence_counter=AbsenceCounter(self.clock))

    async def hold(self, version: str, kind: str, group: str) -> None:
        """Create an IPAddress of pool p."""
        ref = {"apiGroup": group, "kind": kind, "name": "p"}
        spec = {"poolRef": ref, "address": "10.0.0.10", "prefix": 24, "claimRef": {"name": "c"}}
        body = {"metadata": {"name": "c"}, "spec": spec}
        await self.client.create(api.addresses(version), "team", body)


def pool(kind: Any, spec: Any) -> Any:
    return msgspec.convert(
        {"metadata": {"name": "p", "namespace": "team"}, "spec": spec}, kind.type
    )


async def test_an_older_version_that_is_served_suffices_to_know_what_claims_hold() -> None:
    site = Site("v1beta1")
    await site.hold("v1beta1", NETWORK_POOL.kind, NETWORK_POOL.group)
    holdings = await list_holdings(site.client, pool(NETWORK_POOL, {"cidr": "10.0.0.0/24"}))
    assert [holding.holder for holding in holdings.ranges] == ["IPAddressClaim team/c"]


async def test_an_older_version_that_is_served_suffices_to_refuse_a_deletion() -> None:
    site = Site("v1beta1")
    await site.hold("v1beta1", POOL.kind, POOL.group)
    validator = ClusterApiPoolValidator(site.client, POOL, SpaceIndex())
    assert not (await validator.review_deletion(pool(POOL, SPEC))).allowed


async def test_a_first_answer_without_the_kinds_is_not_taken_for_none() -> None:
    """All versions are asked for in each answer, so that absence is believed of all at once."""
    site = Site()
    validator = ClusterApiPoolValidator(site.client, POOL, SpaceIndex())
    for _ in range(ABSENCES - 1):
        with pytest.raises(DiscoveryIncomplete):
            await validator.review_deletion(pool(POOL, SPEC))
        await site.clock.advance(ABSENCE_SECONDS)
    assert (await validator.review_deletion(pool(POOL, SPEC))).allowed
