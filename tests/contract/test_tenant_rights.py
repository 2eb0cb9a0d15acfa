"""The permissions in a tenant that the page about Cilium lists suffice, and all are needed."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

import pytest

from controller.client import Client
from controller.clock import SystemClock
from controller.config import connect
from controller.jobs import run_in_background
from controller.manager import Manager
from controller.meta import Key
from controller.options import ManagerOptions
from controller.transport import Transport
from envtest import ControlPlane
from envtest.faults import Call, Proxy
from envtest.plane import RunningControlPlane as Plane
from reconcilers.api import crd, names
from reconcilers.api.resources import IP_ALLOCATION, TENANT_CLUSTER
from reconcilers.api.services import SERVICE
from reconcilers.api.tenantcluster import TenantCluster
from reconcilers.cli.local.objects import Manifest, apply, delete, make_namespaces
from reconcilers.cli.local.platform import build_kubeconfig_secret
from reconcilers.cli.standin import pools as metallb
from reconcilers.cli.standin.lbipam import LbIpamStandIn, read_cilium_crds
from reconcilers.cli.standin.serviceaddresses import read_status_addresses
from reconcilers.configuration.settings import AllocationSettings, Settings, TenantSettings
from reconcilers.loadbalancers.cilium.leader import LEASE_NAME
from reconcilers.loadbalancers.cilium.pools import CILIUM_POOL
from reconcilers.wiring import assemble
from tests.contract.roles import HOME, Rule, make_cluster, make_object, make_provider
from tests.docs.text import list_fenced_blocks
from tests.polling import until
from tests.yamls import read_yaml

USER = "tenant-of-butler"
TENANT = Key("team", "web")
SETTINGS = Settings(
    allocation=AllocationSettings(requeue_releasing=0.1),
    tenant=TenantSettings(
        requeue_waiting=0.2,
        requeue_not_ready=0.5,
        requeue_young=0.5,
        requeue_deleting=0.1,
        growth_after=0.1,
        platform_service="default/web",
    ),
)


def _read_role() -> Manifest:
    """Return the ClusterRole in the page about Cilium."""
    [role] = [
        block
        for block in list_fenced_blocks("docs/operating/cilium.md", "yaml")
        if "rules:" in block
    ]
    return dict(read_yaml(role))


def _list_rules() -> list[Rule]:
    """Return each permission of the role in the page: one verb on one resource."""
    return [
        Rule(
            "tenant",
            "",
            verb=verb,
            group=group,
            resource=resource,
            names=tuple(rule.get("resourceNames", ())),
        )
        for rule in _read_role()["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    ]


async def _bind_role(transport: Transport) -> None:
    """Create the role of the page, and bind it to the user of the tenant's kubeconfig."""
    await apply(transport, _read_role())
    group = "rbac.authorization.k8s.io"
    binding = {
        "apiVersion": f"{group}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": USER},
        "roleRef": {
            "apiGroup": group,
            "kind": "ClusterRole",
            "name": _read_role()["metadata"]["name"],
        },
        "subjects": [{"apiGroup": group, "kind": "User", "name": USER}],
    }
    await apply(transport, binding)


@asynccontextmanager
async def _open_transport(plane: Plane, path: Path) -> AsyncIterator[Transport]:
    """Open a connection of the administrator; `path` is where its kubeconfig is written."""
    transport = await connect(plane.write_kubeconfig(path))
    try:
        yield transport
    finally:
        await transport.aclose()


@asynccontextmanager
async def _run_operator_stand_in(tenant: Plane, path: Path) -> AsyncIterator[None]:
    """Run the stand-in for Cilium's LB-IPAM, which also holds the operator's Lease."""
    options = ManagerOptions(
        leader_elect=True, lease_namespace="kube-system", lease_name=LEASE_NAME, retry_period=0.2
    )
    async with _open_transport(tenant, path) as transport:
        manager = Manager(transport, options=options)
        LbIpamStandIn(manager, SystemClock())
        async with run_in_background([manager.run]):
            yield


@pytest.mark.slow
async def test_the_page_about_cilium_lists_exactly_the_permissions_that_a_tenant_needs(
    plane: Plane, tmp_path: Path
) -> None:
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        tenant = await enter(ControlPlane.start())
        proxy = await enter(Proxy.run_before(tenant))
        await plane.install_crds(crd.build_crds())
        await tenant.install_crds([*read_cilium_crds(), *metallb.read_metallb_crds()])
        platform = await enter(_open_transport(plane, tmp_path / "admin"))
        tenant_transport = await enter(_open_transport(tenant, tmp_path / "inside"))
        await _bind_role(tenant_transport)
        kubeconfig = await proxy.add_user(USER, ["system:authenticated"])
        await make_namespaces(platform, [HOME, TENANT.namespace])
        await apply(platform, build_kubeconfig_secret(TENANT, kubeconfig))
        manager = Manager(await enter(_open_transport(plane, tmp_path / "own")))
        tenants = assemble(manager, SystemClock(), SETTINGS)
        stack.push_async_callback(tenants.aclose)
        await enter(run_in_background([manager.run]))
        await apply(platform, make_object("NetworkPool", "lab", {"cidr": "10.40.0.0/26"}))
        await apply(platform, make_provider("default"))
        await _play_flow(platform, tenant_transport, tenant=tenant, folder=tmp_path)
    calls = [call for call in proxy.calls if call.resource]
    rules = _list_rules()
    refused = {
        _describe_call(call) for call in calls if not any(rule.covers(call) for rule in rules)
    }
    assert refused == set(), "the permissions of the page do not suffice"
    unused = [str(rule) for rule in rules if not any(rule.covers(call) for call in calls)]
    assert not unused, "permissions that nothing needed:\n" + "\n".join(unused)


async def _play_flow(
    platform: Transport, tenant_transport: Transport, tenant: Plane, folder: Path
) -> None:
    """Serve a cluster, let it grow for a second Service, and delete it.

    One of the Services has a sharing key.
    """
    addons = {"loadBalancer": {"provider": "cilium", "version": "1"}}
    management, tenant_client = Client(platform), Client(tenant_transport)

    async def find_cluster() -> TenantCluster | None:
        return await management.find(TENANT_CLUSTER, TENANT)

    async def is_noted() -> bool:
        allocations = (await management.list(IP_ALLOCATION)).items
        return any(names.ANNOTATION_RELEASE_NOTE in a.metadata.annotations for a in allocations)

    async def is_emptied() -> bool:
        pools = (await tenant_client.list(CILIUM_POOL)).items
        noted = [p for p in pools if names.ANNOTATION_EMPTIED_UNDER in p.metadata.annotations]
        return any(not pool.blocks for pool in noted)

    await make_namespaces(tenant_transport, [metallb.NAMESPACE])
    async with _run_operator_stand_in(tenant, folder / "first"):
        body = make_cluster("web", addons=addons, providerConfigRef={"name": "default"})
        await apply(platform, body)
        await _add_service(tenant_client, "web", {"lbipam.cilium.io/sharing-key": "k"})
        await _add_service(tenant_client, "second", {})
        for name in ("web", "second"):
            await until(partial(_read_service_addresses, tenant_client, name), bool)
        await until(is_noted, bool)
        for name in ("web", "second"):
            await delete(tenant_client, SERVICE, Key("default", name))
        await delete(management, TENANT_CLUSTER, TENANT)
        await until(is_emptied, bool)
    # The range of a Service with a sharing key is released once another operator leads.
    async with _run_operator_stand_in(tenant, folder / "second"):
        await until(find_cluster, lambda tenant_cluster: tenant_cluster is None)


async def _add_service(client: Client, name: str, annotations: dict[str, str]) -> None:
    """Create a Service of type LoadBalancer in the tenant."""
    spec = {"type": "LoadBalancer", "ports": [{"port": 80}], "selector": {"app": "web"}}
    meta = {"name": name, "annotations": annotations}
    await client.create(SERVICE, "default", {"metadata": meta, "spec": spec})


async def _read_service_addresses(client: Client, name: str) -> tuple[str, ...]:
    """Return the addresses in the status of a Service."""
    return read_status_addresses(await client.get(SERVICE, Key("default", name)))


def _describe_call(call: Call) -> str:
    """Return verb, resource and name of a request as text."""
    return f"{call.verb} {call.resource}.{call.group}/{call.name}"
