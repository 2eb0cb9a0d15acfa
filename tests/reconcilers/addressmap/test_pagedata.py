"""The documents of pools that are sent to the live page."""

from datetime import UTC, datetime

from controller.meta import TracedMeta
from reconcilers.addressmap.objects import Objects
from reconcilers.addressmap.pagedata import build_documents_by_pool
from reconcilers.api.networkpool import NetworkPool, NetworkPoolSpec
from reconcilers.integrations import views
from reconcilers.integrations.core.platforms import NetworkPools
from reconcilers.spaces.offers import PoolName

SITE = NetworkPool(TracedMeta("site", "b"), NetworkPoolSpec("10.9.0.0/29"))
MACHINES = {
    "apiVersion": "ipam.cluster.x-k8s.io/v1alpha2",
    "kind": "InClusterIPPool",
    "metadata": {"name": "machines"},
    "spec": {"addresses": ["10.0.0.1"], "prefix": 24},
}


def test_documents_are_built_for_the_named_pools_only_of_any_platform() -> None:
    key = SITE.metadata.key
    platform_views = views.from_manifests(
        [MACHINES], "b", pools=NetworkPools([SITE]), now=datetime.now(UTC)
    )
    assert [pool.title for pool in platform_views.pictures] == ["InClusterIPPool b/machines"]
    objects = Objects({key: SITE}, {}, clusters={}, providers={}, integrations=platform_views)
    site, machines = PoolName("NetworkPool", key), platform_views.pictures[0].name
    documents = build_documents_by_pool(objects, [site, machines])
    assert [
        (name, [document["name"] for document in pool_documents])
        for name, pool_documents in documents.items()
    ] == [
        (site, ["b/site"]),
        (machines, ["InClusterIPPool b/machines"]),
    ]
    assert list(build_documents_by_pool(objects, [site])) == [site]
