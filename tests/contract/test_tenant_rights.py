"""The rights of a tenant's kubeconfig that the page about Cilium lists: enough, and all needed."""

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
from tests.contract.roles import HOME, Rule, cluster, ours, provider
from tests.docs.text import list_fenced_blocks
from tests.polling import until
from tests.yamls import read_yaml

USER = "tenant-of-butler"
WEB = Key("team", "web")
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


def _role() -> Manifest:
    [role] = [
        block
        for block in list_fenced_blocks("docs/operating/cilium.md", "yaml")
        if "rules:" in block
    ]
    return dict(read_yaml(role))


def _rules() -> list[Rule]:
    """Return every single thing that the role of the page allows."""
    return [
        Rule(
            "tenant",
            "",
            verb=verb,
            group=group,
            resource=resource,
            names=tuple(rule.get("resourceNames", ())),
        )
        for rule in _role()["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    ]


async def _allow(transport: Transport) -> None:
    """Give the user of the tenant's kubeconfig the rights of the page."""
    await apply(transport, _role())
    group = "rbac.authorization.k8s.io"
    binding = {
        "apiVersion": f"{group}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": USER},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": _role()["metadata"]["name"]},
        "subjects": [{"apiGroup": group, "kind": "User", "name": USER}],
    }
    await apply(transport, binding)


@asynccontextmanager
async def _connect(plane: Plane, path: Path) -> AsyncIterator[Transport]:
    transport = await connect(plane.write_kubeconfig(path))
    try:
        yield transport
    finally:
        await transport.aclose()


@asynccontextmanager
async def _operator(tenant: Plane, path: Path) -> AsyncIterator[None]:
    """Run the stand-in for LB-IPAM, which holds the Lease of the operator."""
    options = ManagerOptions(
        leader_elect=True, lease_namespace="kube-system", lease_name=LEASE_NAME, retry_period=0.2
    )
    async with _connect(tenant, path) as transport:
        manager = Manager(transport, options=options)
        LbIpamStandIn(manager, SystemClock())
        async with run_in_background([manager.run]):
            yield


@pytest.mark.slow
async def test_the_page_about_cilium_lists_every_right_in_a_tenant_and_no_other(
    plane: Plane, tmp_path: Path
) -> None:
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        tenant = await enter(ControlPlane.start())
        proxy = await enter(Proxy.before(tenant))
        await plane.install_crds(crd.crds())
        await tenant.install_crds([*read_cilium_crds(), *metallb.read_metallb_crds()])
        platform = await enter(_connect(plane, tmp_path / "admin"))
        inside = await enter(_connect(tenant, tmp_path / "inside"))
        await _allow(inside)
        kubeconfig = await proxy.add_user(USER, ["system:authenticated"])
        await make_namespaces(platform, [HOME, WEB.namespace])
        await apply(platform, build_kubeconfig_secret(WEB, kubeconfig))
        manager = Manager(await enter(_connect(plane, tmp_path / "own")))
        ways = assemble(manager, SystemClock(), SETTINGS)
        stack.push_async_callback(ways.aclose)
        await enter(run_in_background([manager.run]))
        await apply(platform, ours("NetworkPool", "lab", {"cidr": "10.40.0.0/26"}))
        await apply(platform, provider("default"))
        await _play(platform, inside, tenant=tenant, folder=tmp_path)
    calls = [call for call in proxy.calls if call.resource]
    rules = _rules()
    refused = {_describe(call) for call in calls if not any(rule.covers(call) for rule in rules)}
    assert refused == set(), "the rights of the page do not suffice"
    unused = [str(rule) for rule in rules if not any(rule.covers(call) for call in calls)]
    assert not unused, "rights that nothing needed:\n" + "\n".join(unused)


async def _play(platform: Transport, inside: Transport, tenant: Plane, folder: Path) -> None:
    """Have a cluster served, grown, and deleted, with a Service that shares its address."""
    addons = {"loadBalancer": {"provider": "cilium", "version": "1"}}
    management, services = Client(platform), Client(inside)

    async def find_cluster() -> TenantCluster | None:
        return await management.find(TENANT_CLUSTER, WEB)

    async def is_noted() -> bool:
        allocations = (await management.list(IP_ALLOCATION)).items
        return any(names.ANNOTATION_RELEASE_NOTE in a.metadata.annotations for a in allocations)

    async def is_emptied() -> bool:
        pools = (await services.list(CILIUM_POOL)).items
        noted = [p for p in pools if names.ANNOTATION_EMPTIED_UNDER in p.metadata.annotations]
        return any(not pool.blocks for pool in noted)

    await make_namespaces(inside, [metallb.NAMESPACE])
    async with _operator(tenant, folder / "first"):
        body = cluster("web", addons=addons, providerConfigRef={"name": "default"})
        await apply(platform, body)
        await _add_service(services, "web", {"lbipam.cilium.io/sharing-key": "k"})
        await _add_service(services, "second", {})
        for name in ("web", "second"):
            await until(partial(_read_service_addresses, services, name), bool)
        await until(is_noted, bool)
        for name in ("web", "second"):
            await delete(services, SERVICE, Key("default", name))
        await delete(management, TENANT_CLUSTER, WEB)
        await until(is_emptied, bool)
    # Another operator: a range of a Service with a sharing key waits for it.
    async with _operator(tenant, folder / "second"):
        await until(find_cluster, lambda find_cluster: find_cluster is None)


async def _add_service(client: Client, name: str, annotations: dict[str, str]) -> None:
    spec = {"type": "LoadBalancer", "ports": [{"port": 80}], "selector": {"app": "web"}}
    meta = {"name": name, "annotations": annotations}
    await client.create(SERVICE, "default", {"metadata": meta, "spec": spec})


async def _read_service_addresses(client: Client, name: str) -> tuple[str, ...]:
    return read_status_addresses(await client.get(SERVICE, Key("default", name)))


def _describe(call: Call) -> str:
    return f"{call.verb} {call.resource}.{call.group}/{call.name}"
