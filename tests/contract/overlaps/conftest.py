"""One server with pools of all kinds, and the controllers with their webhooks, for these tests."""

from collections.abc import AsyncIterator
from itertools import count

import httpx
import pytest
import pytest_asyncio

from envtest import ControlPlane
from envtest.ports import choose_free_port
from reconcilers.api import crd
from reconcilers.configuration.integrationnames import CLUSTER_API, KUBERMATIC, VITISTACK
from reconcilers.integrations.clusterapi import crds
from reconcilers.webhooks.configuration import INTEGRATIONS, VALIDATED
from tests.contract.conftest import administrator
from tests.contract.overlaps.lab import OverlapLab
from tests.contract.product import DATA, HOME, product
from tests.contract.webhookregistration import HOST, register_webhooks
from tests.polling import until

HOOK = "overlaps"
_numbers = count(60)


@pytest_asyncio.fixture(scope="package", loop_scope="package")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[httpx.AsyncClient]:
    """The administrator's client of a server on which all kinds of pools are served."""
    async with ControlPlane.start() as plane, administrator(plane) as admin:
        await plane.install_crds(crd.build_crds())
        await plane.install_crds([dict(crd) for crd in crds.build_pool_crds()])
        for platform in ("clusterapi", "kubermatic", "vitistack"):
            await plane.install_crds(DATA / platform / "crds.yaml")
        folder = tmp_path_factory.mktemp("overlaps")
        port = choose_free_port(HOST)
        await admin.post("/api/v1/namespaces", json={"metadata": {"name": HOME}})
        validated = {**VALIDATED, **INTEGRATIONS[CLUSTER_API], **INTEGRATIONS[KUBERMATIC]}
        await register_webhooks(admin, HOOK, validated=validated, port=port)
        flags = [
            *(f"--integration={integration}" for integration in (KUBERMATIC, VITISTACK)),
            f"--webhook-port={port}",
            f"--webhook-cert-name={HOST}",
            f"--webhook-configuration={HOOK}",
        ]
        kubeconfig = plane.write_kubeconfig(folder / "kubeconfig")
        with product(CLUSTER_API, kubeconfig, folder / "log", *flags):
            await wait_until_webhooks_called(admin)
            yield admin


@pytest_asyncio.fixture(loop_scope="package")
async def lab(server: httpx.AsyncClient) -> OverlapLab:
    """The pools of a test, which has a subnet of its own."""
    return OverlapLab(server, next(_numbers))


async def wait_until_webhooks_called(admin: httpx.AsyncClient) -> None:
    """Wait until the API server calls the webhooks, which refuse this pool; only this can tell."""
    invalid_pool = {
        "apiVersion": "kubermatic.k8c.io/v1",
        "kind": "IPAMPool",
        "metadata": {"name": "tried"},
        "spec": {"datacenters": {"x": {"type": "range", "poolCidr": "10.0.0.0/8"}}},
    }
    pools = "/apis/kubermatic.k8c.io/v1/ipampools"
    await until(
        lambda: admin.post(pools, json=invalid_pool, params={"dryRun": "All"}),
        lambda answer: answer.status_code == 403,
    )
