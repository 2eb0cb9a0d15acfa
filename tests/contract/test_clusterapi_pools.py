"""What an API server says of the pools for Cluster API by our CustomResourceDefinitions."""

from collections.abc import AsyncIterator

import httpx
import pytest
import pytest_asyncio

from reconcilers.integrations.clusterapi.api import GROUP, POOL_VERSION, POOLS
from reconcilers.integrations.clusterapi.crds import crds
from tests.contract.clusterapi_pool_cases import (
    ACCEPTED,
    IP,
    PREFIX,
    REFUSED,
    Json,
    ips,
    prefixes,
)
from tests.contract.conftest import administrator
from tests.contract.test_crd_rules import fields, said
from tests.servers import SERVERS, running

pytestmark = pytest.mark.asyncio(loop_scope="module")
RESOURCES = {resource.kind: resource for resource in POOLS}


class Pools:
    """The pools of a server, as people write them."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http

    async def create(self, kind: str, spec: Json, name: str = "x") -> httpx.Response:
        body = {
            "apiVersion": f"{GROUP}/{POOL_VERSION}",
            "kind": kind,
            "metadata": {"name": name},
            "spec": spec,
        }
        return await self._http.post(RESOURCES[kind].collection("default"), json=body)

    async def patch(self, kind: str, change: Json, name: str = "x") -> httpx.Response:
        headers = {"Content-Type": "application/merge-patch+json"}
        path = f"{RESOURCES[kind].collection('default')}/{name}"
        return await self._http.patch(path, json=change, headers=headers)


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=SERVERS)
async def pools(request: pytest.FixtureRequest) -> AsyncIterator[Pools]:
    """The pools of a server with our definitions, one for the module and version."""
    async with running(request.param) as started, administrator(started) as client:
        await started.install_crds(crds())
        yield Pools(client)


async def test_an_invalid_pool_is_refused_at_the_field_at_fault(pools: Pools) -> None:
    for what, (kind, spec, field, message) in REFUSED.items():
        answer = await pools.create(kind, spec)
        assert field in fields(answer), (what, answer.text)
        assert said(answer, message), (what, answer.text)


async def test_valid_pools_are_accepted(pools: Pools) -> None:
    for number, (what, (kind, spec)) in enumerate(ACCEPTED.items()):
        answer = await pools.create(kind, spec, name=f"sound-{number}")
        assert answer.status_code == 201, (what, answer.text)


async def test_a_pool_with_as_many_entries_as_there_may_be_is_accepted(pools: Pools) -> None:
    many = [f"2001:db8::{number:x}-2001:db8::{number + 1:x}" for number in range(1024)]
    answer = await pools.create(IP, ips(*many, prefix=64, excludedAddresses=many), "many")
    assert answer.status_code == 201, answer.text
    listed = [f"2001:db8:{number:x}::/48" for number in range(1024)]
    answer = await pools.create(PREFIX, prefixes(*listed), "many")
    assert answer.status_code == 201, answer.text


async def test_the_length_of_handed_out_prefixes_cannot_be_changed(pools: Pools) -> None:
    made = await pools.create(PREFIX, prefixes("2001:db8::/48"), "fixed")
    assert made.json()["spec"]["allocationPrefixLength"] == 64
    answer = await pools.patch(PREFIX, {"spec": {"allocationPrefixLength": 60}}, "fixed")
    assert fields(answer) == {"spec.allocationPrefixLength"}
    assert said(answer, "spec.allocationPrefixLength is immutable")


async def test_what_is_left_out_of_a_pool_is_not_filled_in(pools: Pools) -> None:
    made = await pools.create(IP, ips("10.0.0.1"), "bare")
    assert made.json()["spec"] == ips("10.0.0.1")
