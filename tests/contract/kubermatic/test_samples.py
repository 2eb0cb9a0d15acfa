"""The samples for KKP are accepted by the webhook and serve what their comments say."""

from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from tests.contract.kubermatic.conftest import serve_webhook
from tests.contract.kubermatic.lab import ROOT, Body, KubermaticLab
from tests.contract.product import Server

pytestmark = pytest.mark.asyncio(loop_scope="package")
SAMPLES = Path(__file__).parents[3] / "examples" / "kubermatic" / "pools.yaml"
EXPECTED_SPECS: Mapping[tuple[str, str], Body] = {
    ("east", "metallb"): {"addresses": ["192.0.2.10-192.0.2.25"]},
    ("west", "metallb"): {"cidr": "198.51.100.16/28"},
    ("north", "metallb-ipv4"): {"addresses": ["203.0.113.0-203.0.113.7"]},
    ("north", "metallb-ipv6"): {"cidr": "2001:db8:100::/64"},
}
"""By cluster and pool: fields of the spec of the allocation."""


async def test_clusters_get_addresses_of_the_pools_of_the_samples(server: Server) -> None:
    lab = KubermaticLab(server.admin, "example")  # with which the datacenters of the samples begin
    async with serve_webhook(server):
        for document in yaml.safe_load_all(SAMPLES.read_text()):
            answer = await server.admin.post(lab.build_pool_path(), json=document)
            assert answer.status_code == 201, answer.text
            assert "Warning" not in answer.headers
    for name in ("east", "west", "north"):
        await lab.create_cluster(name, name)
    for (cluster, pool), spec in EXPECTED_SPECS.items():

        def has_expected_fields(body: Body, spec: Body = spec) -> bool:
            return all(body["spec"].get(name) == value for name, value in spec.items())

        path = f"{ROOT}/namespaces/{lab.namespace(cluster)}/ipamallocations/{pool}"
        await lab.until(path, has_expected_fields)
