"""A cluster that serves v1beta1 alone, as Cluster API up to 1.10 does."""

from pathlib import Path
from typing import Any

import httpx
import yaml

from envtest.plane import RunningControlPlane as Plane
from reconcilers.api import crd
from reconcilers.integrations.clusterapi import crds
from tests.contract.clusterapi.lab import PATHS, Lab, condition
from tests.contract.product import DATA, product
from tests.polling import until


def older() -> list[dict[str, Any]]:
    """Return Cluster API's definitions without v1beta2."""
    documents = list(yaml.safe_load_all((DATA / "clusterapi" / "crds.yaml").read_text()))
    for definition in documents:
        [kept] = [v for v in definition["spec"]["versions"] if v["name"] == "v1beta1"]
        definition["spec"]["versions"] = [kept | {"storage": True}]
    return documents


async def test_claims_are_served_and_say_so_in_cluster_apis_older_list(
    plane: Plane, admin: httpx.AsyncClient, tmp_path: Path
) -> None:
    await plane.install_crds(crd.crds())
    await plane.install_crds(older())
    await plane.install_crds(crds.crds())
    lab = Lab(admin, "older")
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "older"}}
    assert (await admin.post("/api/v1/namespaces", json=namespace)).status_code == 201
    with product("clusterapi", plane.write_kubeconfig(tmp_path / "kubeconfig"), tmp_path / "log"):
        await lab.pool("p", "10.0.0.10", gateway="10.0.0.1")
        ref = {"apiGroup": "ipam.cluster.x-k8s.io", "kind": "InClusterIPPool", "name": "p"}
        claims = lab.path("IPAddressClaim").replace("v1beta2", "v1beta1")

        async def make_claim(name: str, why: str) -> dict[str, Any]:
            """Make a claim, wait until it gives a reason, return it."""
            body = {
                "apiVersion": PATHS["IPAddressClaim"].split("/")[0] + "/v1beta1",
                "kind": "IPAddressClaim",
                "metadata": {"name": name},
                "spec": {"poolRef": ref},
            }
            assert (await admin.post(claims, json=body)).status_code == 201

            async def look() -> dict[str, Any]:
                return dict((await admin.get(f"{claims}/{name}")).json())

            return await until(look, lambda look: condition(look).get("reason") == why)

        served_claim = await make_claim("a", "AddressAllocated")
        assert served_claim["status"]["addressRef"] == {"name": "a"}
        waiting = await make_claim("b", "PoolExhausted")
        assert "addressRef" not in waiting["status"]
        assert condition(waiting)["severity"] == "Error"
        addresses = lab.path("IPAddress", "a").replace("v1beta2", "v1beta1")
        owner = (await admin.get(addresses)).json()["metadata"]["ownerReferences"][0]
        assert owner["apiVersion"] == "ipam.cluster.x-k8s.io/v1beta1"
