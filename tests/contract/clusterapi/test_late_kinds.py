"""The integration starts when its kinds are served, also with the upstream provider's CRDs."""

from pathlib import Path

import anyio
import httpx

from envtest.plane import RunningControlPlane as Plane
from reconcilers.api import crd
from tests.contract.clusterapi.lab import ClusterApiLab
from tests.contract.product import DATA, product
from tests.polling import until


async def test_claims_are_served_once_crds_are_installed_whose_pools_have_no_conditions(
    plane: Plane, admin: httpx.AsyncClient, tmp_path: Path
) -> None:
    await plane.install_crds(crd.build_crds())
    kubeconfig, log = plane.write_kubeconfig(tmp_path / "kubeconfig"), tmp_path / "log"
    lab = ClusterApiLab(admin, "default")
    with product("clusterapi", kubeconfig, log):

        async def read_log() -> str:
            return await anyio.Path(log).read_text(encoding="utf-8")

        await until(read_log, lambda logged: "waiting for them" in logged)
        await plane.install_crds(DATA / "clusterapi" / "in-cluster-pools.yaml")
        await plane.install_crds(DATA / "clusterapi" / "crds.yaml")
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "late"}}
        assert (await admin.post("/api/v1/namespaces", json=namespace)).status_code == 201
        lab.namespace = "late"
        await lab.create_pool("p", "10.0.0.10-10.0.0.11")
        await lab.create_claim("a", "p")
        assert await lab.wait_until_served("a") == "10.0.0.10"
        await lab.wait_for_counts("p", total=2, used=1, free=1, out_of_range=0)
        await lab.wait_until_settled()
        before = await lab.find("InClusterIPPool", "p")
        assert before is not None
        assert "conditions" not in before["status"]
        await lab.wait_until_settled()
        assert await lab.find("InClusterIPPool", "p") == before
