"""Claims on a server that serves only v1beta1, as Cluster API up to 1.10 does."""

from pathlib import Path
from typing import Any

import httpx
import yaml

from envtest.plane import RunningControlPlane as Plane
from reconcilers.api import crd
from reconcilers.integrations.clusterapi import crds
from tests.contract.clusterapi.lab import PATHS, ClusterApiLab, find_condition
from tests.contract.product import DATA, product
from tests.polling import until


def read_crds_without_v1beta2() -> list[dict[str, Any]]:
    """Return Cluster API's definitions without v1beta2."""
    definitions = list(yaml.safe_load_all((DATA / "clusterapi" / "crds.yaml").read_text()))
    for definition in definitions:
        [v1beta1] = [v for v in definition["spec"]["versions"] if v["name"] == "v1beta1"]
        definition["spec"]["versions"] = [v1beta1 | {"storage": True}]
    return definitions


async def test_claims_of_v1beta1_are_served_and_get_conditions_of_its_older_schema(
    plane: Plane, admin: httpx.AsyncClient, tmp_path: Path
) -> None:
    await plane.install_crds(crd.build_crds())
    await plane.install_crds(read_crds_without_v1beta2())
    await plane.install_crds(crds.build_pool_crds())
    lab = ClusterApiLab(admin, "older")
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "older"}}
    assert (await admin.post("/api/v1/namespaces", json=namespace)).status_code == 201
    with product("clusterapi", plane.write_kubeconfig(tmp_path / "kubeconfig"), tmp_path / "log"):
        await lab.create_pool("p", "10.0.0.10", gateway="10.0.0.1")
        ref = {"apiGroup": "ipam.cluster.x-k8s.io", "kind": "InClusterIPPool", "name": "p"}
        claims = lab.build_path("IPAddressClaim").replace("v1beta2", "v1beta1")

        async def create_claim(name: str, reason: str) -> dict[str, Any]:
            """Create a claim, wait until its Ready condition has a reason, and return it."""
            body = {
                "apiVersion": PATHS["IPAddressClaim"].split("/")[0] + "/v1beta1",
                "kind": "IPAddressClaim",
                "metadata": {"name": name},
                "spec": {"poolRef": ref},
            }
            assert (await admin.post(claims, json=body)).status_code == 201

            async def look() -> dict[str, Any]:
                return dict((await admin.get(f"{claims}/{name}")).json())

            return await until(look, lambda look: find_condition(look).get("reason") == reason)

        served_claim = await create_claim("a", "AddressAllocated")
        assert served_claim["status"]["addressRef"] == {"name": "a"}
        waiting = await create_claim("b", "PoolExhausted")
        assert "addressRef" not in waiting["status"]
        assert find_condition(waiting)["severity"] == "Error"
        addresses = lab.build_path("IPAddress", "a").replace("v1beta2", "v1beta1")
        owner = (await admin.get(addresses)).json()["metadata"]["ownerReferences"][0]
        assert owner["apiVersion"] == "ipam.cluster.x-k8s.io/v1beta1"
