"""Edits of IPPools while IPAddresses cannot be decoded, and entries that hand out nothing."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from controller.client import Client
from controller.meta import Untyped
from controller.resource import Resource
from controller.testing.api import FakeApi
from controller.testing.clock import VirtualClock
from reconcilers.integrations.clusterapi import api as clusterapi
from reconcilers.integrations.metal3.api import (
    ADDRESSES,
    GROUP,
    KINDS,
    POOL,
    Metal3Pool,
    PoolEntry,
)
from reconcilers.integrations.metal3.validating import Metal3PoolValidator
from reconcilers.spaces.index import SpaceIndex

CONTRACT = clusterapi.get_address_kind("v1beta2")
CASES: dict[str, tuple[Resource[Any], dict[str, Any]]] = {
    "IPAddress of metal3": (ADDRESSES, {"pool": {"name": "p"}, "prefix": "many"}),
    "IPAddress of Cluster API": (
        CONTRACT,
        {"poolRef": {"apiGroup": GROUP, "kind": POOL, "name": "p"}, "prefix": "many"},
    ),
}


def make_pool(name: str, end: str) -> Metal3Pool:
    """Return an IPPool in namespace `team` that hands out 10.0.0.1 to `end`."""
    entries = [{"start": "10.0.0.1", "end": end}]
    body = {"metadata": {"name": name, "namespace": "team"}, "spec": {"pools": entries}}
    return msgspec.convert(body, Metal3Pool)


@pytest.mark.parametrize("case", CASES)
async def test_an_edit_that_narrows_a_pool_is_refused_while_an_ipaddress_of_it_is_unreadable(
    case: str,
) -> None:
    """An edit that widens the pool is allowed, and so is any edit of pool `q`."""
    resource, spec = CASES[case]
    fake = FakeApi(VirtualClock())
    for kind in (*KINDS, CONTRACT, clusterapi.get_claim_kind("v1beta2")):
        fake.serve(kind)
    client = Client(fake)
    untyped = replace(resource, type=Untyped, outline=None)
    await client.create(untyped, "team", {"metadata": {"name": "odd"}, "spec": spec})
    validator = Metal3PoolValidator(client, SpaceIndex())

    narrowed = await validator.review_update(
        make_pool("p", "10.0.0.5"), make_pool("p", "10.0.0.9")
    )
    assert narrowed.refusal is not None
    assert "cannot tell whose addresses would be left out" in narrowed.refusal
    assert "team/odd" in narrowed.refusal
    widened = await validator.review_update(make_pool("p", "10.0.0.9"), make_pool("p", "10.0.0.5"))
    assert widened.allowed
    other_pool = await validator.review_update(
        make_pool("q", "10.0.0.5"), make_pool("q", "10.0.0.9")
    )
    assert other_pool.allowed


@pytest.mark.parametrize(
    "fields",
    [
        {"end": "10.0.0.9"},
        {"start": "10.0.1.1", "subnet": "10.0.0.0/24"},
        {"start": "10.0.0.1", "end": "fd00::1"},
    ],
)
async def test_an_entry_that_hands_out_nothing_is_a_warning(fields: dict[str, str]) -> None:
    fake = FakeApi(VirtualClock())
    validator = Metal3PoolValidator(Client(fake), SpaceIndex())
    pool = make_pool("p", "10.0.0.9")
    entries = (*pool.spec.pools, msgspec.convert(fields, PoolEntry))
    verdict = await validator.review_creation(
        replace(pool, spec=replace(pool.spec, pools=entries))
    )
    assert verdict.allowed
    assert verdict.warnings == (
        "spec.pools[1]: the entry has no address, so it hands out nothing",
    )
    assert (await validator.review_creation(pool)).warnings == ()
