"""Requests of a kind fail while its definition is replaced, and are retried at once after that."""

from typing import Any

from controller.errors import ServerFailure
from controller.meta import Key, Version
from controller.resource import Resource
from reconcilers.configuration.integrationnames import CLUSTER_API
from reconcilers.configuration.settings import Settings
from reconcilers.integrations.clusterapi import api as clusterapi
from reconcilers.integrations.core.discovery import DEFINITIONS
from tests.reconcilers.integrations.test_late_definitions import define
from tests.reconcilers.integrations.test_sharing import cluster
from tests.reconcilers.test_sharing import NAMESPACE, Cluster

CLAIMS, ADDRESSES = clusterapi.claims("v1beta2"), clusterapi.addresses("v1beta2")
POOL = clusterapi.IN_CLUSTER_IP_POOL


async def _claim(home: Cluster, name: str) -> None:
    reference = {"apiGroup": POOL.group, "kind": POOL.kind, "name": "p"}
    body = {"metadata": {"name": name}, "spec": {"poolRef": reference}}
    await home.client.create(CLAIMS, NAMESPACE, body)


async def _list_served(home: Cluster) -> set[str]:
    page = await home.client.list(ADDRESSES)
    return {obj.metadata.name for obj in page.items}


async def _edit_definition(home: Cluster, kind: Resource[Any]) -> None:
    definition = await home.client.get(DEFINITIONS, Key("", kind.full_name))
    change = {"metadata": {"labels": {"replaced": "true"}}}
    await home.client.patch(DEFINITIONS, Version.from_object(definition), change)


async def test_a_claim_is_served_soon_after_the_definition_of_its_pool_was_replaced() -> None:
    settings = Settings(integration=(CLUSTER_API,))
    async with cluster(settings, CLAIMS, ADDRESSES, *clusterapi.POOLS) as home:
        home.api.serve(DEFINITIONS)
        await define(home, POOL, established=True)
        [replica] = home.start("a")
        await home.pass_by(20)
        spec = {"addresses": ["10.9.0.8-10.9.0.15"], "prefix": 24, "gateway": "10.9.0.1"}
        await home.client.create(POOL, NAMESPACE, {"metadata": {"name": "p"}, "spec": spec})
        await _claim(home, "one")
        await home.pass_by(5)
        assert await _list_served(home) == {"one"}

        away = ServerFailure(503, "ServiceUnavailable", "storage is (re)initializing")
        replica.link.find_error = lambda path: away if path.endswith(f"/{POOL.plural}") else None
        replica.link.forbid(POOL.plural)  # ends the watches
        replica.link.forbidden_plurals.clear()
        await home.pass_by(120)
        replica.link.find_error = lambda _: None
        await _edit_definition(home, POOL)
        await _claim(home, "two")
        await home.pass_by(3)
        assert await _list_served(home) == {"one", "two"}
