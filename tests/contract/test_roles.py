"""The shipped roles suffice for the whole flow, and the flow needs each of their rules."""

import re
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
import yaml

from controller.clock import SystemClock
from controller.config import connect
from controller.informer import Informer
from controller.jobs import run_in_background
from controller.manager import Manager
from controller.meta import Key
from controller.options import ManagerOptions, SelfSigned
from controller.transport import Transport
from envtest import ControlPlane
from envtest.faults import Call, Proxy
from envtest.plane import RunningControlPlane as Plane
from reconcilers.api import crd, names
from reconcilers.api.resources import (
    OWN_KINDS,
)
from reconcilers.cli.local.platform import build_kubeconfig_secret
from reconcilers.cli.managerflags import LEASE_NAME
from reconcilers.cli.standin import pools as standin
from reconcilers.cli.standin.controller import MetalLBStandIn
from reconcilers.configuration.settings import (
    AllocationSettings,
    OrphanSettings,
    PoolSettings,
    Settings,
    TenantSettings,
)
from reconcilers.networkpool.events import MOST_SINGLE_PER_MINUTE
from reconcilers.webhooks.configuration import NAME, SERVICE, build_configuration, find_path
from reconcilers.wiring import assemble
from tests.contract.roles import (
    HOME,
    Json,
    Rule,
    is_projection_begun,
    list_manifests,
    list_rules,
    make_cluster,
    make_core_object,
    make_early_request,
    make_object,
    make_orphan,
    make_provider,
    make_too_large_request,
)
from tests.polling import SECONDS

ACCOUNT = f"system:serviceaccount:{HOME}:butler-ipam"
CONFIGURATIONS = "validatingwebhookconfigurations"
FAILURE_COUNT = MOST_SINGLE_PER_MINUTE + 3
SETTINGS = Settings(
    pool=PoolSettings(resync=1.0, requeue_after_work=0.2, quiet_period=1.0),
    allocation=AllocationSettings(requeue_releasing=0.1),
    tenant=TenantSettings(
        requeue_waiting=0.2,
        requeue_not_ready=0.5,
        requeue_young=0.5,
        requeue_deleting=0.1,
        growth_after=0.1,
        # Longer than a busy machine takes to bring a range to the tenant and to a Service.
        shrink_after=5.0,
        metallb_bundle=f"{HOME}/metallb-bundle",
        metallb_wait=0.2,
    ),
    orphans=OrphanSettings(resync=0.5),
)
CERTIFICATES = "butler-ipam-webhook-certificates"
OPTIONS = ManagerOptions(
    stream_lists=False,  # as with servers that cannot stream them
    leader_elect=True,
    lease_namespace=HOME,
    lease_name=LEASE_NAME,
    metrics_bind="127.0.0.1:0",
    metrics_secure=True,
    webhook_bind="127.0.0.1:0",
    webhook_self_signed=SelfSigned(
        HOME, SERVICE, CERTIFICATES, validating=[NAME], names=["127.0.0.1"]
    ),
)


class FlowLab:
    """The API servers of the platform and of a tenant, with watches of our kinds on the platform.

    Args:
        http: the administrator's client of the platform.
        tenant: the administrator's client of the tenant.
        transport: the connection of the watches.
    """

    def __init__(
        self, http: httpx.AsyncClient, tenant: httpx.AsyncClient, transport: Transport
    ) -> None:
        self._http = http
        self._tenant = tenant
        self._changed = anyio.Event()
        self.watched: list[Informer[Any]] = [
            Informer(kind, transport, SystemClock()) for kind in OWN_KINDS.values()
        ]
        for informer in self.watched:
            informer.add_handler(lambda _: self._changed.set())

    async def create(self, body: Json, *, in_tenant: bool = False) -> Json:
        """Create an object on the platform, or inside the tenant."""
        http = self._tenant if in_tenant else self._http
        response = await http.post(_make_collection_path(body), json=body)
        assert response.status_code == 201, response.text
        created: Json = response.json()
        return created

    async def send(
        self, method: str, path: str, body: Json | None = None, *, in_tenant: bool = False
    ) -> httpx.Response:
        """Send a request to the platform or to the tenant; fail unless it succeeds."""
        http = self._tenant if in_tenant else self._http
        headers = {"Content-Type": "application/merge-patch+json"} if method == "PATCH" else {}
        answer = await http.request(method, path, json=body, headers=headers)
        assert answer.status_code < 300, answer.text
        return answer

    async def until(self, holds: Callable[["FlowLab"], bool]) -> None:
        """Wait until a predicate is true; it is checked after each event of the watches."""
        with anyio.fail_after(SECONDS):
            while not holds(self):
                self._changed = anyio.Event()
                await self._changed.wait()

    def get_objects(self, kind: str) -> dict[str, Any]:
        """Return the objects of one of our kinds in the cache, by name."""
        [cache] = [informer.cache for informer in self.watched if informer.resource.kind == kind]
        return {obj.metadata.name: obj for obj in cache}

    def list_allocated(self) -> set[str]:
        """Return the names of the allocations in phase Allocated."""
        allocations = self.get_objects("IPAllocation")
        return {name for name, obj in allocations.items() if obj.status.phase == "Allocated"}


PLURALS = {"ServiceAccount": "serviceaccounts", "Secret": "secrets", "Service": "services"} | {
    kind.kind: kind.plural for kind in OWN_KINDS.values()
}


def _make_collection_path(body: Json) -> str:
    """Return the path at which an object is created."""
    version, kind = body["apiVersion"], body["kind"]
    base = f"/apis/{version}" if "/" in version else f"/api/{version}"
    plural = PLURALS.get(kind) or f"{kind.lower()}s"
    namespace = body["metadata"].get("namespace")
    return f"{base}/namespaces/{namespace}/{plural}" if namespace else f"{base}/{plural}"


def _make_path(kind: str, name: str, namespace: str = HOME) -> str:
    """Return the path of an object of one of our kinds."""
    return f"/apis/{names.API_VERSION}/namespaces/{namespace}/{PLURALS[kind]}/{name}"


@asynccontextmanager
async def open_admin_client(plane: Plane) -> AsyncIterator[httpx.AsyncClient]:
    """Open a client of the administrator of a control plane."""
    async with httpx.AsyncClient(
        base_url=plane.url,
        verify=plane.create_admin_tls(),
        headers=plane.build_admin_headers(),
        timeout=30,
    ) as http:
        yield http


@asynccontextmanager
async def run_metallb_stand_in(tenant: Plane, folder: Path) -> AsyncIterator[None]:
    """Run the stand-in for MetalLB in the tenant."""
    transport = await connect(tenant.write_kubeconfig(folder / "tenant-admin"))
    manager = Manager(transport)
    MetalLBStandIn(manager, SystemClock())
    async with run_in_background([manager.run]):
        yield
    await transport.aclose()


async def scrape_metrics(lab: FlowLab, manager: Manager) -> str:
    """Return the metrics, read by a ServiceAccount with the role butler-ipam-metrics-reader."""
    await lab.create(make_core_object("ServiceAccount", "prometheus", HOME))
    await lab.create(
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "scraper"},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                "name": "butler-ipam-metrics-reader",
            },
            "subjects": [{"kind": "ServiceAccount", "name": "prometheus", "namespace": HOME}],
        }
    )
    account = f"/api/v1/namespaces/{HOME}/serviceaccounts/prometheus/token"
    token = (await lab.send("POST", account, {"spec": {}})).json()["status"]["token"]
    async with httpx.AsyncClient(verify=False) as http:
        answer = await http.get(
            f"https://127.0.0.1:{manager.metrics_port}/metrics",
            headers={"Authorization": f"Bearer {token}"},
        )
    assert answer.status_code == 200
    return answer.text


async def create_prerequisites(lab: FlowLab, tenant_kubeconfig: str) -> None:
    """Create namespaces, the shipped roles, kubeconfigs of two tenants, and other Secrets.

    The kubeconfig of the tenant `away` leads to a port that nothing listens on.
    """
    for name in (HOME, "team"):
        await lab.create(make_core_object("Namespace", name, None))
    for body in list_manifests("rbac"):
        await lab.create(body)
    for name, kubeconfig in (
        ("shop", tenant_kubeconfig),
        ("away", re.sub(r"(server: https://[^:]+):\d+", r"\1:1", tenant_kubeconfig)),
    ):
        await lab.create(dict(build_kubeconfig_secret(Key("team", name), kubeconfig)))
    # The controller has to replace this invalid certificate.
    invalid_data = {"tls.crt": "eA==", "tls.key": "eA=="}
    unusable = make_core_object(
        "Secret", CERTIFICATES, HOME, type="kubernetes.io/tls", data=invalid_data
    )
    await lab.create(unusable)
    manifests = yaml.safe_dump_all(
        [*standin.read_metallb_crds(), make_core_object("Namespace", "metallb-system", None)]
    )
    await lab.create(
        make_core_object("ConfigMap", "metallb-bundle", HOME, data={"all.yaml": manifests})
    )
    password = {"username": "dQ==", "password": "cA=="}
    await lab.create(make_core_object("Secret", "credentials", HOME, data=password))


async def register_webhooks(lab: FlowLab, proxy: Proxy, port: int | None) -> None:
    """Register the webhooks, and wait until the controller has written its CA bundle to them.

    Then delete the certificate, and wait until the controller writes the bundle of a new one.
    """

    def make_client_config(webhook: str) -> Json:
        return {"url": f"https://127.0.0.1:{port}{find_path(webhook)}"}

    await lab.create(build_configuration(make_client_config))
    with anyio.fail_after(SECONDS):
        await proxy.ended_calls.wait(
            1, lambda call: (call.verb, call.resource) == ("patch", CONFIGURATIONS)
        )
    await lab.send("DELETE", f"/api/v1/namespaces/{HOME}/secrets/{CERTIFICATES}")
    with anyio.fail_after(SECONDS):
        await proxy.ended_calls.wait(
            2, lambda call: (call.verb, call.resource) == ("patch", CONFIGURATIONS)
        )


async def play_flow(lab: FlowLab, proxy: Proxy) -> None:
    """Cause all kinds of requests of the controllers, one after another."""
    await lab.create(make_object("NetworkPool", "lab", {"cidr": "10.40.0.0/26"}))
    await lab.create(make_provider("default"))
    scoped = make_provider("scoped", scope={"type": "team", "teamRef": {"name": "one"}})
    await lab.create(scoped)
    # This one names no ProviderConfig, so that the platform's default is read.
    await lab.create(make_cluster("shop"))
    await lab.create(make_cluster("lost"))  # has no kubeconfig
    await lab.create(make_cluster("away"))  # does not answer
    await lab.create(make_cluster("early", providerConfigRef={"name": "later"}))
    await lab.create(make_early_request())
    await lab.create(make_orphan())
    await lab.until(lambda lab: {"team-shop-lb", "team-shop-nodes"} <= lab.list_allocated())
    ready = {"status": {"phase": "Ready"}}
    await lab.send("PATCH", f"{_make_path('TenantCluster', 'shop', 'team')}/status", ready)
    away_status = {"status": {"tenantNamespace": "team", "phase": "Ready"}}
    await lab.send("PATCH", f"{_make_path('TenantCluster', 'away', 'team')}/status", away_status)
    await lab.until(lambda lab: "left" not in lab.get_objects("IPAllocation"))

    # The tenant has one address, so two Services make it grow; then their deletion shrinks it.
    for name in ("one", "two"):
        spec = {"type": "LoadBalancer", "ports": [{"port": 80}]}
        await lab.create(make_core_object("Service", name, "default", spec=spec), in_tenant=True)
    await lab.until(lambda lab: "team-shop-lb-1" in lab.list_allocated())
    for name in ("one", "two"):
        await lab.send("DELETE", f"/api/v1/namespaces/default/services/{name}", in_tenant=True)
    await lab.until(lambda lab: "team-shop-lb-1" not in lab.get_objects("IPAllocation"))

    # These failures exceed the limit of single events, so the shared event becomes a series.
    failed = {f"large-{number}" for number in range(FAILURE_COUNT)}
    for name in sorted(failed):
        await lab.create(make_too_large_request(name))
    await lab.until(
        lambda lab: (
            failed
            <= {
                n
                for n, allocation in lab.get_objects("IPAllocation").items()
                if allocation.status.phase == "Failed"
            }
        )
    )
    for name in sorted(failed):
        await lab.send("DELETE", _make_path("IPAllocation", name))

    await lab.until(lambda lab: is_projection_begun(lab.get_objects("TenantCluster")["away"]))
    await lab.send("DELETE", "/api/v1/namespaces/team/secrets/away-admin-kubeconfig")
    release_anyway = {"metadata": {"annotations": {names.ANNOTATION_RELEASE_ANYWAY: "true"}}}
    await lab.send("PATCH", _make_path("TenantCluster", "lost", "team"), release_anyway)
    await lab.send("DELETE", _make_path("IPAllocation", "early"))
    for name in ("shop", "lost", "away", "early"):
        await lab.send("DELETE", _make_path("TenantCluster", name, "team"))
    await lab.until(lambda lab: not lab.get_objects("TenantCluster"))
    await lab.until(lambda lab: not lab.get_objects("IPAllocation"))
    for name in ("default", "scoped"):
        await lab.send("DELETE", _make_path("ProviderConfig", name))
    await lab.send("DELETE", _make_path("NetworkPool", "lab"))
    await lab.until(
        lambda lab: not lab.get_objects("ProviderConfig") and not lab.get_objects("NetworkPool")
    )
    with anyio.fail_after(SECONDS):
        await proxy.ended_calls.wait(
            1, lambda call: (call.verb, call.resource) == ("patch", "events")
        )


@pytest.mark.slow
async def test_the_whole_flow_needs_every_rule_of_the_shipped_roles_and_no_other(
    plane: Plane, tmp_path: Path
) -> None:
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        tenant = await enter(ControlPlane.start())
        proxy = await enter(Proxy.run_before(plane))
        await plane.install_crds(crd.build_crds())
        http = await enter(open_admin_client(plane))
        tenant_http = await enter(open_admin_client(tenant))
        await tenant.install_crds(standin.read_metallb_crds())
        await tenant_http.post(
            "/api/v1/namespaces", json=make_core_object("Namespace", "metallb-system", None)
        )
        await enter(run_metallb_stand_in(tenant, tmp_path))
        watching = await connect(plane.write_kubeconfig(tmp_path / "admin"))
        stack.push_async_callback(watching.aclose)
        lab = FlowLab(http, tenant_http, watching)
        await enter(run_in_background([informer.run for informer in lab.watched]))
        await create_prerequisites(lab, tenant.get_kubeconfig())

        await plane.add_user(
            ACCOUNT,
            ["system:serviceaccounts", f"system:serviceaccounts:{HOME}", "system:authenticated"],
        )
        transport = await connect(proxy.write_kubeconfig(tmp_path / "own", ACCOUNT))
        stack.push_async_callback(transport.aclose)
        manager = Manager(transport, options=OPTIONS)
        tenants = assemble(manager, SystemClock(), SETTINGS)
        stack.push_async_callback(tenants.aclose)
        await enter(run_in_background([manager.run]))
        await manager.wait_serving()
        await register_webhooks(lab, proxy, manager.webhook_port)
        await play_flow(lab, proxy)
        metrics = await scrape_metrics(lab, manager)

    refused = [line for line in metrics.splitlines() if 'code="403"' in line]
    assert refused == [], "the shipped roles do not suffice"
    calls = list(proxy.calls)
    unused = [str(rule) for rule in list_rules() if not any(rule.covers(call) for call in calls)]
    assert not unused, "rules that nothing needed:\n" + "\n".join(unused)


def test_a_rule_with_names_covers_only_requests_for_these_names() -> None:
    role: Mapping[str, Any] = {"verb": "get", "group": "", "resource": "secrets"}
    rule = Rule("r", HOME, **role, names=("a",))
    call = Call("GET", "/", {}, verb="get", resource="secrets", namespace=HOME, name="a")
    assert rule.covers(call)
    other = Call("GET", "/", {}, verb="get", resource="secrets", namespace=HOME, name="b")
    assert not rule.covers(other)
