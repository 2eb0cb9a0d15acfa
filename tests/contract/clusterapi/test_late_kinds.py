"""The integration begins when its kinds are served, also with others' definitions of the pools."""

from pathlib import Path

import anyio
import httpx

from envtest.plane import RunningControlPlane as Plane
from reconcilers.api import crd
from tests.contract.clusterapi.lab import Lab
from tests.contract.product import DATA, product
from tests.polling import until


async def test_claims_are_served_once_their_kinds_are_and_by_definitions_without_conditions(
    plane: Plane, admin: httpx.AsyncClient, tmp_path: Path
) -> None:
    await plane.install_crds(crd.crds())
    kubeconfig, log = plane.write_kubeconfig(tmp_path / "kubeconfig"), tmp_path / "log"
    lab = Lab(admin, "default")
    with product("clusterapi", kubeconfig, log):

        async def read_log() -> str:
            return await anyio.Path(log).read_text(encoding="utf-8")

        await until(read_log, lambda logged: "waiting for them" in logged)
        await plane.install_crds(DATA / "clusterapi" / "in-cluster-pools.yaml")
        await plane.install_crds(DATA / "clusterapi" / "crds.yaml")
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "late"}}
        assert (await admin.post("/api/v1/namespaces", json=namespace)).status_code == 201
        lab.namespace = "late"
        await lab.pool("p", "10.0.0.10-10.0.0.11")
        await lab.claim("a", "p")
        assert await lab.wait_until_served("a") == "10.0.0.10"
        await lab.counts("p", (2, 1, 1, 0))
        await lab.wait_until_settled()
        before = await lab.find("InClusterIPPool", "p")
        assert before is not None
        assert "conditions" not in before["status"]
        await lab.wait_until_settled()
        assert await lab.find("InClusterIPPool", "p") == before
