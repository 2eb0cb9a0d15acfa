"""Only one of IPAddressClaims and IPAddresses is served: its objects hold addresses all the same.

Somebody deleted one of the two CustomResourceDefinitions, or it is not served for now.
"""

from typing import Any

import pytest

from allocator import AddressRange
from controller.client import Client
from controller.testing.api import FakeApi
from controller.testing.clock import VirtualClock
from reconcilers.api.resources import NETWORK_POOL
from reconcilers.integrations.clusterapi.heldranges import list_holdings
from reconcilers.integrations.core.discovery import LOOK_AGAIN_SECONDS
from tests.reconcilers import make
from tests.reconcilers.integrations.clusterapi.test_unreadable import (
    ADDRESSES,
    CLAIMS,
    WITH_CLAIMS,
    make_pool_ref,
)
from tests.reconcilers.integrations.unreadable import Json, PlatformCluster, open_platform_cluster
from tests.reconcilers.test_sharing import NAMESPACE

BOTH = {"claims": (CLAIMS, ADDRESSES), "addresses": (ADDRESSES, CLAIMS)}
ONE_IS_SERVED = pytest.mark.parametrize(("served_kind", "missing"), BOTH.values(), ids=BOTH)
ADDRESS: Json = {
    "claimRef": {"name": "machine"},
    "poolRef": make_pool_ref("lab", NETWORK_POOL),
    "address": "10.0.0.3",
    "prefix": 24,
}


def _read_condition(cluster: PlatformCluster) -> tuple[Any, Any]:
    """Return reason and message of the condition Ready of NetworkPool `lab`."""
    condition = cluster.get_ready_condition(NETWORK_POOL, "lab")
    return condition["reason"], condition["message"]


@ONE_IS_SERVED
async def test_a_pool_hands_out_nothing_and_names_the_definition_that_is_missing(
    served_kind: Any, missing: Any
) -> None:
    async with open_platform_cluster(WITH_CLAIMS, served_kind) as cluster:
        await cluster.create_pool("lab", 0)
        await cluster.pass_by(5)
        await cluster.create_allocation("one", "lab")
        await cluster.pass_by(60)
        assert await cluster.list_ranges() == {}
        reason, message = _read_condition(cluster)
        assert reason == "HoldersUnknown"
        assert f"apply the CustomResourceDefinition {missing.full_name}" in message


@ONE_IS_SERVED
async def test_a_pool_is_served_once_the_missing_kind_is_served(
    served_kind: Any, missing: Any
) -> None:
    async with open_platform_cluster(WITH_CLAIMS, served_kind) as cluster:
        await cluster.create_pool("lab", 0)
        await cluster.create_allocation("one", "lab")
        await cluster.pass_by(20)
        cluster.api.serve(missing, fields=("metadata.name",))
        await cluster.pass_by(LOOK_AGAIN_SECONDS + 10)
        assert set(await cluster.list_ranges()) == {"one"}
        assert _read_condition(cluster)[0] == "Ready"


async def test_an_allocation_gets_no_address_of_an_ipaddress_while_claims_are_not_served() -> None:
    async with open_platform_cluster(WITH_CLAIMS, ADDRESSES) as cluster:
        await cluster.create_pool("lab", 0)
        await cluster.create_object(ADDRESSES, "machine", ADDRESS)
        await cluster.create_allocation("one", "lab")
        await cluster.pass_by(60)
        assert await cluster.list_ranges() == {}
        cluster.api.serve(CLAIMS, fields=("metadata.name",))
        await cluster.pass_by(LOOK_AGAIN_SECONDS + 10)
        [(_, first, last)] = (await cluster.list_ranges()).values()
        address = AddressRange.parse("10.0.0.3", "10.0.0.3").first
        assert not first <= address <= last


async def test_a_webhook_finds_what_ipaddresses_hold_while_claims_are_not_served() -> None:
    api = FakeApi(VirtualClock())
    api.serve(ADDRESSES)
    client = Client(api)
    body = {"metadata": {"name": "machine"}, "spec": ADDRESS}
    await client.create(ADDRESSES, NAMESPACE, body)
    holdings = await list_holdings(client, make.pool("lab"))
    assert [holding.holder for holding in holdings.ranges] == [
        f"IPAddressClaim {NAMESPACE}/machine"
    ]
