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
    ref,
)
from tests.reconcilers.integrations.unreadable import Json, Site, site
from tests.reconcilers.test_sharing import NAMESPACE

BOTH = {"claims": (CLAIMS, ADDRESSES), "addresses": (ADDRESSES, CLAIMS)}
ONE_IS_SERVED = pytest.mark.parametrize(("served_kind", "missing"), BOTH.values(), ids=BOTH)
ADDRESS: Json = {
    "claimRef": {"name": "machine"},
    "poolRef": ref("lab", NETWORK_POOL),
    "address": "10.0.0.3",
    "prefix": 24,
}


async def _ready(place: Site) -> tuple[Any, Any]:
    condition = place.ready(NETWORK_POOL, "lab")
    return condition["reason"], condition["message"]


@ONE_IS_SERVED
async def test_a_pool_hands_out_nothing_and_names_the_definition_that_is_missing(
    served_kind: Any, missing: Any
) -> None:
    async with site(WITH_CLAIMS, served_kind) as place:
        await place.home.pool("lab", 0)
        await place.home.pass_by(5)
        await place.home.ask("one", "lab")
        await place.home.pass_by(60)
        assert await place.home.ranges() == {}
        reason, message = await _ready(place)
        assert reason == "HoldersUnknown"
        assert f"apply the CustomResourceDefinition {missing.full_name}" in message


@ONE_IS_SERVED
async def test_a_pool_is_served_once_the_missing_kind_is_served(
    served_kind: Any, missing: Any
) -> None:
    async with site(WITH_CLAIMS, served_kind) as place:
        await place.home.pool("lab", 0)
        await place.home.ask("one", "lab")
        await place.home.pass_by(20)
        place.home.api.serve(missing, fields=("metadata.name",))
        await place.home.pass_by(LOOK_AGAIN_SECONDS + 10)
        assert set(await place.home.ranges()) == {"one"}
        assert (await _ready(place))[0] == "Ready"


async def test_an_allocation_gets_no_address_of_an_ipaddress_while_claims_are_not_served() -> None:
    async with site(WITH_CLAIMS, ADDRESSES) as place:
        await place.home.pool("lab", 0)
        await place.make(ADDRESSES, "machine", ADDRESS)
        await place.home.ask("one", "lab")
        await place.home.pass_by(60)
        assert await place.home.ranges() == {}
        place.home.api.serve(CLAIMS, fields=("metadata.name",))
        await place.home.pass_by(LOOK_AGAIN_SECONDS + 10)
        [(_, first, last)] = (await place.home.ranges()).values()
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
