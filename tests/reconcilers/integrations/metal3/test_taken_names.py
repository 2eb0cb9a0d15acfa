"""The name of an IPAddress is taken by one that has another address than the name says."""

import pytest

from allocator import AddressRange
from controller.client import Client
from controller.meta import Key
from controller.testing.api import FakeApi
from reconcilers.integrations.core.claimwrites import AddressInTheWay
from reconcilers.integrations.metal3 import api
from reconcilers.integrations.metal3.addresswrites import AddressWrites
from reconcilers.integrations.metal3.entries import parse_space
from tests.clock import VirtualClock
from tests.reconcilers.integrations.metal3.test_poolstatus import (
    SPEC,
    get_claim_caches,
    make_caches,
)


async def test_an_ipaddress_of_the_right_name_with_another_address_is_not_adopted() -> None:
    fake, caches = FakeApi(VirtualClock()), make_caches()
    for kind in api.KINDS:
        fake.serve(kind)
    client = Client(fake)
    fake.put_object(api.POOLS, {"metadata": {"name": "p", "namespace": "home"}, "spec": {}})
    fake.put_object(
        api.CLAIMS,
        {"metadata": {"name": "c", "namespace": "home"}, "spec": {"pool": {"name": "p"}}},
    )
    claim = await client.get(api.CLAIMS, Key("home", "c"))
    own_pool = await client.get(api.POOLS, Key("home", "p"))
    # A person creates it after the pass chose 10.0.0.5.
    fake.put_object(
        api.ADDRESSES,
        {
            "metadata": {"name": "p-10-0-0-5", "namespace": "home"},
            "spec": {
                "address": "10.0.0.6",
                "pool": {"name": "p"},
                "claim": {"name": "c"},
            },
        },
    )
    writes = AddressWrites(client, caches, get_claim_caches(caches))
    promised = AddressRange.parse("10.0.0.5", "10.0.0.5")
    with pytest.raises(AddressInTheWay):
        await writes.ensure(claim, own_pool, parse_space(SPEC), promised)
