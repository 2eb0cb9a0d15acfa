"""Pools are not narrowed while an object that may hold their addresses cannot be decoded."""

from dataclasses import replace
from functools import partial
from typing import Any

import msgspec
import pytest

from controller.client import Client
from controller.meta import Untyped
from controller.resource import Resource
from controller.testing.api import FakeApi
from controller.testing.clock import VirtualClock
from reconcilers.api.resources import IP_ALLOCATION, NETWORK_POOL
from reconcilers.configuration.integrationnames import CLUSTER_API, KUBERMATIC
from reconcilers.configuration.settings import KubermaticSettings, Settings
from reconcilers.integrations.clusterapi import api as clusterapi
from reconcilers.integrations.clusterapi.heldranges import list_holdings
from reconcilers.integrations.clusterapi.validating import ClusterApiPoolValidator
from reconcilers.integrations.kubermatic import api as kubermatic
from reconcilers.integrations.kubermatic.observing import list_observed_holdings
from reconcilers.integrations.kubermatic.validating import IPAMPoolValidator
from reconcilers.spaces.index import SpaceIndex
from reconcilers.webhooks.validators import PoolValidator
from reconcilers.wiring.integrations import make_lister_of_others
from tests.reconcilers import make
from tests.reconcilers.lab import Lab

CLAIMS, ADDRESSES = clusterapi.get_claim_kind("v1beta2"), clusterapi.get_address_kind("v1beta2")
POOLS = clusterapi.IN_CLUSTER_IP_POOL
SPEC = {"addresses": ["10.0.0.10-10.0.0.14"], "prefix": 24}
NARROWED_SPEC = {**SPEC, "excludedAddresses": ["10.0.0.10"]}
TODO = "IPAddress team/a cannot be read; correct or delete it"


async def make_client(kind: Resource[Any], namespace: str, name: str, spec: Any) -> Client:
    """Return a client of an API server that serves all kinds and has this object."""
    fake = FakeApi(VirtualClock())
    for resource in (CLAIMS, ADDRESSES, POOLS, IP_ALLOCATION, *kubermatic.KINDS):
        fake.serve(resource)
    client = Client(fake)
    untyped = replace(kind, type=Untyped, outline=None)
    await client.create(untyped, namespace, {"metadata": {"name": name}, "spec": spec})
    return client


def pool(spec: Any, kind: Resource[Any] = POOLS, **metadata: str) -> Any:
    """Return the pool p of a kind."""
    return msgspec.convert({"metadata": {"name": "p", **metadata}, "spec": spec}, kind.type)


def make_unreadable_address(pool: str, kind: Resource[Any] = POOLS) -> dict[str, Any]:
    """Return the spec of an IPAddress of a pool that cannot be decoded."""
    ref = {"apiGroup": kind.group, "kind": kind.kind, "name": pool}
    return {"poolRef": ref, "address": "10.0.0.10", "prefix": "many"}


@pytest.mark.parametrize(("of", "allowed"), [("p", False), ("q", True)])
async def test_a_pool_of_cluster_api_cannot_be_narrowed_or_deleted_while_its_address_is_unreadable(
    of: str, allowed: bool
) -> None:
    client = await make_client(ADDRESSES, "team", name="a", spec=make_unreadable_address(of))
    validator = ClusterApiPoolValidator(client, POOLS, SpaceIndex())
    old = pool(SPEC, namespace="team")
    narrowed = await validator.review_update(pool(NARROWED_SPEC, namespace="team"), old)
    deleted = await validator.review_deletion(old)
    assert [verdict.allowed for verdict in (narrowed, deleted)] == [allowed] * 2
    if not allowed:
        assert TODO in narrowed.refusal
        assert TODO in deleted.refusal


@pytest.mark.parametrize(("of", "allowed"), [("p", False), ("q", True)])
async def test_an_ipampool_cannot_be_narrowed_while_its_allocation_is_unreadable(
    of: str, allowed: bool
) -> None:
    client = await make_client(kubermatic.ALLOCATIONS, "cluster-a", name=of, spec={"type": 7})
    settings = {"type": "range", "poolCidr": "10.0.0.0/28", "allocationRange": 2}
    old = pool({"datacenters": {"dc": settings}}, kubermatic.POOLS)
    fewer = {**settings, "excludeRanges": ["10.0.0.0-10.0.0.1"]}
    new = pool({"datacenters": {"dc": fewer}}, kubermatic.POOLS)
    verdict = await IPAMPoolValidator(client, SpaceIndex()).review_update(new, old)
    assert verdict.allowed == allowed
    if not allowed:
        assert "IPAMAllocation cluster-a/p cannot be read; correct or delete it" in verdict.refusal


HOLDERS: dict[str, tuple[Resource[Any], Any, Any]] = {
    "IPAddress": (ADDRESSES, make_unreadable_address("p", NETWORK_POOL), list_holdings),
    "IPAMAllocation": (
        kubermatic.ALLOCATIONS,
        {"type": 7, "addresses": ["10.0.0.0-10.0.0.1"]},
        list_observed_holdings,
    ),
}


def make_validator(client: Client, list_others: Any) -> PoolValidator:
    """Return the validator of NetworkPools; `list_others` lists the ranges of other platforms."""
    lab = Lab()
    caches = lab.caches
    return PoolValidator(
        client,
        caches["networkpools"],
        allocations=caches["ipallocations"],
        clock=lab.clock,
        max_addresses=1 << 20,
        list_others=partial(list_others, client),
        spaces=SpaceIndex(),
    )


def make_networkpool(**spec: Any) -> Any:
    """Return the NetworkPool p."""
    return pool({"cidr": "10.0.0.0/28", **spec}, NETWORK_POOL, namespace=make.NAMESPACE)


NARROWED = make_networkpool(reserved=[{"cidr": "10.0.0.0/30"}])


@pytest.mark.parametrize("holder", HOLDERS)
async def test_a_networkpool_is_not_narrowed_and_its_deletion_warns(holder: str) -> None:
    kind, unreadable, list_others = HOLDERS[holder]
    client = await make_client(kind, make.NAMESPACE, name="a", spec=unreadable)
    validator = make_validator(client, list_others)
    narrowed = await validator.review_update(NARROWED, make_networkpool())
    todo = f"{holder} {make.NAMESPACE}/a cannot be read; correct or delete it"
    assert todo in narrowed.join_causes()
    deleted = await validator.review_deletion(make_networkpool())
    assert deleted.allowed
    assert any(todo in warning for warning in deleted.warnings)


async def test_rejections_name_readable_claims_and_the_unreadable_address() -> None:
    unreadable = make_unreadable_address("p", NETWORK_POOL)
    client = await make_client(ADDRESSES, make.NAMESPACE, name="a", spec=unreadable)
    spec = {**unreadable, "prefix": 28, "address": "10.0.0.2", "claimRef": {"name": "c"}}
    await client.create(ADDRESSES, make.NAMESPACE, {"metadata": {"name": "c"}, "spec": spec})
    validator = make_validator(client, list_holdings)
    for verdict in (
        await validator.review_deletion(make_networkpool()),
        await validator.review_update(NARROWED, make_networkpool()),
    ):
        assert not verdict.allowed
        assert f"IPAddressClaim {make.NAMESPACE}/c h" in verdict.join_causes()
        assert f"IPAddress {make.NAMESPACE}/a cannot be read" in verdict.join_causes()


async def test_a_rejection_names_the_claim_and_the_unreadable_allocation_of_kkp() -> None:
    client = await make_client(
        kubermatic.ALLOCATIONS,
        make.NAMESPACE,
        name="a",
        spec={"type": 7, "addresses": ["10.0.0.0-10.0.0.1"]},
    )
    spec = {**make_unreadable_address("p", NETWORK_POOL), "prefix": 28, "claimRef": {"name": "c"}}
    await client.create(ADDRESSES, make.NAMESPACE, {"metadata": {"name": "c"}, "spec": spec})
    integration = (CLUSTER_API, KUBERMATIC)
    settings = Settings(integration=integration, kubermatic=KubermaticSettings(observe=True))
    list_others = make_lister_of_others(client, settings)
    verdict = await make_validator(client, lambda _, pool: list_others(pool)).review_deletion(
        make_networkpool()
    )
    assert f"IPAddressClaim {make.NAMESPACE}/c holds 10.0.0.10" in verdict.join_causes()
    assert f"IPAMAllocation {make.NAMESPACE}/a cannot be read" in verdict.join_causes()
