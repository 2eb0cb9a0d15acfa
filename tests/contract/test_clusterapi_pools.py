"""An API server rejects invalid pools of Cluster API by our definitions and by our webhooks."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import httpx
import pytest
import pytest_asyncio
import yaml

from controller.clock import SystemClock
from controller.config import connect
from controller.manager import Manager
from controller.options import ManagerOptions, SelfSigned
from controller.transport import Transport
from reconcilers.configuration.integrationnames import CLUSTER_API
from reconcilers.integrations.clusterapi.api import (
    GROUP,
    POOL_VERSION,
    POOLS,
    SKIP_DELETE_CHECK,
    get_address_kind,
)
from reconcilers.integrations.clusterapi.crds import build_pool_crds
from reconcilers.spaces.index import SpaceIndex
from reconcilers.webhooks.configuration import INTEGRATIONS, NAME, SERVICE
from reconcilers.wiring.integrations import make_integration_webhooks
from tests.contract.clusterapi_pool_cases import (
    ACCEPTED,
    GLOBAL_IP,
    IP,
    PREFIX,
    REFUSED,
    REFUSED_BY_WEBHOOK,
    Json,
    make_address_spec,
    make_prefix_spec,
)
from tests.contract.conftest import administrator
from tests.contract.test_crd_rules import has_message, list_fields
from tests.contract.webhookregistration import CONFIGURATIONS, HOST, register_webhooks
from tests.polling import SECONDS
from tests.servers import SERVERS, running

pytestmark = pytest.mark.asyncio(loop_scope="module")
RESOURCES = {resource.kind: resource for resource in POOLS}


KINDS = Path(__file__).parents[1] / "data/clusterapi/crds.yaml"
ADDRESS = get_address_kind("v1beta2")


class PoolClient:
    """Writes pools and IPAddresses in namespace `default`, and returns the server's answers.

    Args:
        http: the administrator's client.
        transport: the connection of the webhooks' manager.
    """

    def __init__(self, http: httpx.AsyncClient, transport: Transport) -> None:
        self.http = http
        self._transport = transport

    async def create(
        self, kind: str, spec: Json, name: str = "x", *, dry: bool = False
    ) -> httpx.Response:
        """Create a pool, by a dry run if `dry`."""
        body = {
            "apiVersion": f"{GROUP}/{POOL_VERSION}",
            "kind": kind,
            "metadata": {"name": name},
            "spec": spec,
        }
        where = RESOURCES[kind].build_collection_path("default")
        return await self.http.post(where, json=body, params={"dryRun": "All"} if dry else {})

    async def patch(self, kind: str, change: Json, name: str = "x") -> httpx.Response:
        """Apply a merge patch to a pool."""
        headers = {"Content-Type": "application/merge-patch+json"}
        path = f"{RESOURCES[kind].build_collection_path('default')}/{name}"
        return await self.http.patch(path, json=change, headers=headers)

    async def delete(self, kind: str, name: str = "x") -> httpx.Response:
        """Delete a pool."""
        return await self.http.delete(f"{RESOURCES[kind].build_collection_path('default')}/{name}")

    async def create_address(self, kind: str, pool: str, address: str, name: str) -> None:
        """Create an IPAddress of a pool, whose claim has the same name."""
        body = {
            "apiVersion": ADDRESS.api_version,
            "kind": "IPAddress",
            "metadata": {"name": name},
            "spec": {
                "address": address,
                "prefix": 24,
                "claimRef": {"name": name},
                "poolRef": {"apiGroup": GROUP, "kind": kind, "name": pool},
            },
        }
        response = await self.http.post(ADDRESS.build_collection_path("default"), json=body)
        assert response.status_code == 201, response.text

    @asynccontextmanager
    async def serve_webhooks(self) -> AsyncIterator[None]:
        """Serve the webhooks, which the API server calls during the context."""
        options = ManagerOptions(
            webhook_bind=f"{HOST}:0",
            webhook_self_signed=SelfSigned(
                "default", SERVICE, "certs", validating=[NAME], names=[HOST]
            ),
        )
        manager = Manager(self._transport, clock=SystemClock(), options=options)
        for webhook in make_integration_webhooks(manager.client, [CLUSTER_API], SpaceIndex()):
            manager.add_webhook(webhook)
        async with anyio.create_task_group() as group:
            group.start_soon(manager.run)
            await manager.wait_serving()
            await self._configure(manager.webhook_port)
            yield
            await self.http.delete(f"{CONFIGURATIONS}/{NAME}")
            manager.stop()

    async def _configure(self, port: int | None) -> None:
        """Register the webhooks at a port of this machine, and wait until they are called."""
        validated = INTEGRATIONS[CLUSTER_API]
        await register_webhooks(self.http, NAME, validated=validated, port=port)
        # No field reports that the server uses a configuration, so this retries an invalid create.
        with anyio.fail_after(SECONDS):
            is_called = False
            while not is_called:
                answer = await self.create(IP, make_address_spec("10.0.0.9-10.0.0.1"), dry=True)
                is_called = answer.status_code == 422


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=SERVERS)
async def pool_client(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[PoolClient]:
    """A client of pools on a server with our definitions, on the newest and the oldest one."""
    async with running(request.param) as started, administrator(started) as client:
        await started.install_crds([*build_pool_crds(), *yaml.safe_load_all(KINDS.read_text())])
        kubeconfig = started.write_kubeconfig(tmp_path_factory.mktemp("plane") / "kubeconfig")
        transport = await connect(kubeconfig)
        yield PoolClient(client, transport)
        await transport.aclose()


async def test_an_invalid_pool_is_refused_at_the_field_at_fault(pool_client: PoolClient) -> None:
    for case, (kind, spec, field, message) in REFUSED.items():
        answer = await pool_client.create(kind, spec)
        assert field in list_fields(answer), (case, answer.text)
        assert has_message(answer, message), (case, answer.text)


async def test_valid_pools_are_accepted(pool_client: PoolClient) -> None:
    for number, (case, (kind, spec)) in enumerate(ACCEPTED.items()):
        answer = await pool_client.create(kind, spec, name=f"sound-{number}")
        assert answer.status_code == 201, (case, answer.text)


async def test_a_pool_with_the_largest_number_of_entries_is_accepted(
    pool_client: PoolClient,
) -> None:
    many = [f"2001:db8::{number:x}-2001:db8::{number + 1:x}" for number in range(1024)]
    answer = await pool_client.create(
        IP, make_address_spec(*many, prefix=64, excludedAddresses=many), "many"
    )
    assert answer.status_code == 201, answer.text
    listed = [f"2001:db8:{number:x}::/48" for number in range(1024)]
    answer = await pool_client.create(PREFIX, make_prefix_spec(*listed), "many")
    assert answer.status_code == 201, answer.text


async def test_the_length_of_handed_out_prefixes_cannot_be_changed(
    pool_client: PoolClient,
) -> None:
    created = await pool_client.create(PREFIX, make_prefix_spec("2001:db8::/48"), "fixed")
    assert created.json()["spec"]["allocationPrefixLength"] == 64
    answer = await pool_client.patch(PREFIX, {"spec": {"allocationPrefixLength": 60}}, "fixed")
    assert list_fields(answer) == {"spec.allocationPrefixLength"}
    assert has_message(answer, "spec.allocationPrefixLength is immutable")


async def test_optional_fields_of_a_pool_get_no_defaults(pool_client: PoolClient) -> None:
    created = await pool_client.create(IP, make_address_spec("10.0.0.1"), "bare")
    assert created.json()["spec"] == make_address_spec("10.0.0.1")


async def test_the_webhook_rejects_specs_that_the_schema_cannot_check(
    pool_client: PoolClient,
) -> None:
    async with pool_client.serve_webhooks():
        for case, (kind, spec, field, message) in REFUSED_BY_WEBHOOK.items():
            answer = await pool_client.create(kind, spec)
            assert field in list_fields(answer), (case, answer.text)
            assert has_message(answer, message), (case, answer.text)
        answer = await pool_client.create(IP, make_address_spec("10.0.0.9-10.0.0.1"), "backwards")
        assert answer.json()["message"] == (
            'admission webhook "validation.inclusterippool.ipam.cluster.x-k8s.io" denied the'
            ' request: InClusterIPPool.ipam.cluster.x-k8s.io "backwards" is invalid:'
            ' spec.addresses: Invalid value: "10.0.0.9-10.0.0.1": provided address is not a'
            " valid IP, range, nor CIDR"
        )


async def test_a_pool_with_used_addresses_cannot_exclude_them_and_cannot_be_deleted(
    pool_client: PoolClient,
) -> None:
    async with pool_client.serve_webhooks():
        for kind, name in ((IP, "used"), (GLOBAL_IP, "used-globally")):
            webhook = f"validation.{kind.lower()}.{GROUP}"
            assert (
                await pool_client.create(kind, make_address_spec("10.0.0.1-10.0.0.9"), name)
            ).is_success
            await pool_client.create_address(kind, name, address="10.0.0.5", name=name)
            await pool_client.create_address(
                kind, name, address="10.0.0.50", name=f"{name}-outside"
            )
            rejected_patch = await pool_client.patch(
                kind, {"spec": {"excludedAddresses": ["10.0.0.5"]}}, name
            )
            assert rejected_patch.status_code == 400
            assert rejected_patch.json()["message"] == (
                f'admission webhook "{webhook}" denied the request:'
                " pool addresses do not contain allocated addresses: [10.0.0.5-10.0.0.5]"
            )
            label_patch = {"metadata": {"labels": {"a": "b"}}}
            assert (await pool_client.patch(kind, label_patch, name)).is_success
            wider_patch = {"spec": {"addresses": ["10.0.0.4-10.0.0.20"]}}
            assert (await pool_client.patch(kind, wider_patch, name)).is_success
            rejected_deletion = await pool_client.delete(kind, name)
            assert rejected_deletion.status_code == 400
            assert rejected_deletion.json()["message"] == (
                f'admission webhook "{webhook}" denied the request: Pool has IPAddresses'
                " allocated. Cannot delete Pool until all IPAddresses have been removed."
            )
            skip_patch = {"metadata": {"annotations": {SKIP_DELETE_CHECK: ""}}}
            assert (await pool_client.patch(kind, skip_patch, name)).is_success
            assert (await pool_client.delete(kind, name)).is_success
