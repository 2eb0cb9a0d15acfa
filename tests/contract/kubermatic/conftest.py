"""One server with KKP's kinds, and the product as a process, for all of these tests."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count

import anyio
import httpx
import pytest
import pytest_asyncio

from controller.clock import SystemClock
from controller.config import connect
from controller.manager import Manager
from controller.options import ManagerOptions, SelfSigned
from reconcilers.configuration.integrationnames import KUBERMATIC
from reconcilers.integrations.core.poolsource import PoolSource
from reconcilers.integrations.kubermatic.api import POOLS
from reconcilers.integrations.kubermatic.platform import KubermaticPlatform
from reconcilers.spaces.index import SpaceIndex
from reconcilers.webhooks.configuration import INTEGRATIONS, SERVICE
from reconcilers.wiring.integrations import make_integration_webhooks
from tests.contract.kubermatic.lab import KubermaticLab
from tests.contract.product import Server, serving
from tests.contract.webhookregistration import CONFIGURATIONS, HOST, register_webhooks
from tests.polling import until

HOOK = "kubermatic"
_numbers = count()


@pytest_asyncio.fixture(scope="package", loop_scope="package")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Server]:
    """A server on which the product serves IPAMPools."""
    async with serving("kubermatic", tmp_path_factory.mktemp("kubermatic")) as server:
        yield server


@pytest_asyncio.fixture(loop_scope="package")
async def lab(server: Server) -> KubermaticLab:
    """The objects of KKP whose names begin with a prefix of each test's own."""
    return KubermaticLab(server.admin, f"t{next(_numbers)}")


@asynccontextmanager
async def serve_webhook(server: Server) -> AsyncIterator[None]:
    """Serve the webhook of IPAMPools; inside the context the API server calls it."""
    transport = await connect(server.admin_kubeconfig)
    signed = SelfSigned("default", SERVICE, "certs", validating=[HOOK], names=[HOST])
    options = ManagerOptions(webhook_bind=f"{HOST}:0", webhook_self_signed=signed)
    manager = Manager(transport, clock=SystemClock(), options=options)
    spaces = SpaceIndex()
    PoolSource(manager, SystemClock(), spaces=spaces, platform=KubermaticPlatform())
    for webhook in make_integration_webhooks(manager.client, [KUBERMATIC], spaces):
        manager.add_webhook(webhook)
    async with anyio.create_task_group() as group:
        group.start_soon(manager.run)
        await manager.wait_serving()
        port, validated = manager.webhook_port, INTEGRATIONS[KUBERMATIC]
        await register_webhooks(server.admin, HOOK, validated=validated, port=port)
        await until(lambda: _is_webhook_called(server.admin), bool)
        yield
        await server.admin.delete(f"{CONFIGURATIONS}/{HOOK}")
        manager.stop()
    await transport.aclose()


async def _is_webhook_called(admin: httpx.AsyncClient) -> bool:
    """Return whether the API server calls the webhook; only a request can tell."""
    body = {
        "apiVersion": POOLS.api_version,
        "kind": POOLS.kind,
        "metadata": {"name": "tried"},
        "spec": {"datacenters": {"x": {"type": "range", "poolCidr": "10.0.0.0/8"}}},
    }
    answer = await admin.post(POOLS.build_collection_path(), json=body, params={"dryRun": "All"})
    return answer.status_code == 403
