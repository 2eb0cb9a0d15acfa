"""Requests of a kind fail while its definition is replaced, and are retried at once after that."""

from typing import Any

from controller.errors import ServerFailure
from controller.meta import Key, Version
from controller.resource import Resource
from reconcilers.configuration.integrationnames import CLUSTER_API
from reconcilers.configuration.settings import Settings
from reconcilers.integrations.clusterapi import api as clusterapi
from reconcilers.integrations.core.discovery import DEFINITIONS
from tests.reconcilers.integrations.test_late_definitions import create_definition
from tests.reconcilers.integrations.test_sharing import open_sharing_cluster
from tests.reconcilers.test_sharing import NAMESPACE, Cluster

CLAIMS, ADDRESSES = clusterapi.get_claim_kind("v1beta2"), clusterapi.get_address_kind("v1beta2")
POOL = clusterapi.IN_CLUSTER_IP_POOL


async def _create_claim(cluster: Cluster, name: str) -> None:
    """Create an IPAddressClaim of the InClusterIPPool `p`."""
    reference = {"apiGroup": POOL.group, "kind": POOL.kind, "name": "p"}
    body = {"metadata": {"name": name}, "spec": {"poolRef": reference}}
    await cluster.client.create(CLAIMS, NAMESPACE, body)


async def _list_served_claims(cluster: Cluster) -> set[str]:
    """Return the names of the claims that have an IPAddress."""
    page = await cluster.client.list(ADDRESSES)
    return {obj.metadata.name for obj in page.items}


async def _edit_definition(cluster: Cluster, kind: Resource[Any]) -> None:
    """Write the CustomResourceDefinition of a kind, so that replicas look at it again."""
    definition = await cluster.client.get(DEFINITIONS, Key("", kind.full_name))
    change = {"metadata": {"labels": {"replaced": "true"}}}
    await cluster.client.patch(DEFINITIONS, Version.from_object(definition), change)


async def test_a_claim_is_served_soon_after_the_definition_of_its_pool_was_replaced() -> None:
    """Requests for the kind of the pool fail for two minutes before that."""
    settings = Settings(integration=(CLUSTER_API,))
    async with open_sharing_cluster(settings, CLAIMS, ADDRESSES, *clusterapi.POOLS) as cluster:
        cluster.api.serve(DEFINITIONS)
        await create_definition(cluster, POOL, established=True)
        [replica] = cluster.start_replicas("a")
        await cluster.pass_by(20)
        spec = {"addresses": ["10.9.0.8-10.9.0.15"], "prefix": 24, "gateway": "10.9.0.1"}
        await cluster.client.create(POOL, NAMESPACE, {"metadata": {"name": "p"}, "spec": spec})
        await _create_claim(cluster, "one")
        await cluster.pass_by(5)
        assert await _list_served_claims(cluster) == {"one"}

        failure = ServerFailure(503, "ServiceUnavailable", "storage is (re)initializing")
        replica.link.find_error = lambda path: (
            failure if path.endswith(f"/{POOL.plural}") else None
        )
        replica.link.forbid(POOL.plural)  # ends the watches
        replica.link.forbidden_plurals.clear()
        await cluster.pass_by(120)
        replica.link.find_error = lambda _: None
        await _edit_definition(cluster, POOL)
        await _create_claim(cluster, "two")
        await cluster.pass_by(3)
        assert await _list_served_claims(cluster) == {"one", "two"}
