"""What the live page is told of pools."""

from datetime import UTC, datetime

from controller.meta import Key, TracedMeta
from reconcilers.addressmap.objects import Objects
from reconcilers.addressmap.page import documents_of
from reconcilers.api.networkpool import NetworkPool, NetworkPoolSpec
from reconcilers.integrations import views

SITE = NetworkPool(TracedMeta("site", "b"), NetworkPoolSpec("10.9.0.0/29"))
MACHINES = {
    "apiVersion": "ipam.cluster.x-k8s.io/v1alpha2",
    "kind": "InClusterIPPool",
    "metadata": {"name": "machines"},
    "spec": {"addresses": ["10.0.0.1"], "prefix": 24},
}


def test_documents_of_network_pools_are_found_beside_pools_of_other_kinds() -> None:
    key = SITE.metadata.key
    others = views.from_manifests([MACHINES], "b", [SITE], datetime.now(UTC))
    assert [one.view.name for one in others.drawings] == ["InClusterIPPool b/machines"]
    objects = Objects({key: SITE}, {}, {}, {}, integrations=others)
    [only] = documents_of(objects, [key])[Key("b", "site")]
    assert only["name"] == "b/site"
