"""The shipped roles: the whole flow runs under exactly them, and every rule of them is needed."""

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
    cluster,
    is_projection_begun,
    list_manifests,
    list_rules,
    make_early_request,
    make_orphan,
    make_too_large_request,
    ours,
    plain,
    provider,
)
from tests.polling import SECONDS

ACCOUNT = f"system:serviceaccount:{HOME}:butler-ipam"
CONFIGURATIONS = "validatingwebhookconfigurations"
FAILURES = MOST_SINGLE_PER_MINUTE + 3
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


class Stage:
    """The platform's API server, as an administrator writes to it, and a tenant's."""

    def __init__(self, http: httpx.AsyncClient, tenant: httpx.AsyncClient, own: Transport) -> None:
        self._http = http
        self._tenant = tenant
        self._changed = anyio.Event()
        self.watched: list[Informer[Any]] = [
            Informer(kind, own, SystemClock()) for kind in OWN_KINDS.values()
        ]
        for informer in self.watched:
            informer.add_handler(lambda _: self._changed.set())

    async def create(self, body: Json, *, inside: bool = False) -> Json:
        """Create an object on the platform, or inside the tenant."""
        http = self._tenant if inside else self._http
        response = await http.post(_collection(body), json=body)
        assert response.status_code == 201, response.text
        created: Json = response.json()
        return created

    async def send(
        self, method: str, where: str, body: Json | None = None, *, inside: bool = False
    ) -> httpx.Response:
        http = self._tenant if inside else self._http
        headers = {"Content-Type": "application/merge-patch+json"} if method == "PATCH" else {}
        answer = await http.request(method, where, json=body, headers=headers)
        assert answer.status_code < 300, answer.text
        return answer

    async def until(self, holds: Callable[["Stage"], bool]) -> None:
        """Wait until the watches have shown that something holds."""
        with anyio.fail_after(SECONDS):
            while not holds(self):
                self._changed = anyio.Event()
                await self._changed.wait()

    def objects(self, kind: str) -> dict[str, Any]:
        """Return the objects of a kind of ours, by name."""
        [cache] = [informer.cache for informer in self.watched if informer.resource.kind == kind]
        return {obj.metadata.name: obj for obj in cache}

    def list_allocated(self) -> set[str]:
        allocations = self.objects("IPAllocation")
        return {name for name, obj in allocations.items() if obj.status.phase == "Allocated"}


PLURALS = {"ServiceAccount": "serviceaccounts", "Secret": "secrets", "Service": "services"} | {
    kind.kind: kind.plural for kind in OWN_KINDS.values()
}


def _collection(body: Json) -> str:
    version, kind = body["apiVersion"], body["kind"]
    base = f"/apis/{version}" if "/" in version else f"/api/{version}"
    plural = PLURALS.get(kind) or f"{kind.lower()}s"
    namespace = body["metadata"].get("namespace")
    return f"{base}/namespaces/{namespace}/{plural}" if namespace else f"{base}/{plural}"


def _path(kind: str, name: str, namespace: str = HOME) -> str:
    return f"/apis/{names.API_VERSION}/namespaces/{namespace}/{PLURALS[kind]}/{name}"


@asynccontextmanager
async def client(plane: Plane) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(
        base_url=plane.url, verify=plane.tls(), headers=plane.admin_headers(), timeout=30
    ) as http:
        yield http


@asynccontextmanager
async def stand_in(tenant: Plane, folder: Path) -> AsyncIterator[None]:
    """Run the stand-in for MetalLB in the tenant."""
    transport = await connect(tenant.write_kubeconfig(folder / "tenant-admin"))
    manager = Manager(transport)
    MetalLBStandIn(manager, SystemClock())
    async with run_in_background([manager.run]):
        yield
    await transport.aclose()


async def scrape(stage: Stage, manager: Manager) -> str:
    """Read the metrics as Prometheus would: by the token of an account that may."""
    await stage.create(plain("ServiceAccount", "prometheus", HOME))
    await stage.create(
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
    token = (await stage.send("POST", account, {"spec": {}})).json()["status"]["token"]
    async with httpx.AsyncClient(verify=False) as http:
        answer = await http.get(
            f"https://127.0.0.1:{manager.metrics_port}/metrics",
            headers={"Authorization": f"Bearer {token}"},
        )
    assert answer.status_code == 200
    return answer.text


async def prepare(stage: Stage, tenant_kubeconfig: str) -> None:
    for name in (HOME, "team"):
        await stage.create(plain("Namespace", name, None))
    for body in list_manifests("rbac"):
        await stage.create(body)
    for name, kubeconfig in (
        ("shop", tenant_kubeconfig),
        ("away", re.sub(r"(server: https://[^:]+):\d+", r"\1:1", tenant_kubeconfig)),
    ):
        await stage.create(dict(build_kubeconfig_secret(Key("team", name), kubeconfig)))
    # An unusable certificate: it is replaced.
    nonsense = {"tls.crt": "eA==", "tls.key": "eA=="}
    unusable = plain("Secret", CERTIFICATES, HOME, type="kubernetes.io/tls", data=nonsense)
    await stage.create(unusable)
    manifests = yaml.safe_dump_all(
        [*standin.read_metallb_crds(), plain("Namespace", "metallb-system", None)]
    )
    await stage.create(plain("ConfigMap", "metallb-bundle", HOME, data={"all.yaml": manifests}))
    password = {"username": "dQ==", "password": "cA=="}
    await stage.create(plain("Secret", "credentials", HOME, data=password))


async def call_webhooks(stage: Stage, proxy: Proxy, port: int | None) -> None:
    """Let the API server ask the webhooks, and wait until it has been told whom to trust."""

    def make_client_config(webhook: str) -> Json:
        return {"url": f"https://127.0.0.1:{port}{find_path(webhook)}"}

    await stage.create(build_configuration(make_client_config))
    with anyio.fail_after(SECONDS):
        await proxy.done.wait(
            1, lambda call: (call.verb, call.resource) == ("patch", CONFIGURATIONS)
        )
    # Lost, it is made anew.
    await stage.send("DELETE", f"/api/v1/namespaces/{HOME}/secrets/{CERTIFICATES}")
    with anyio.fail_after(SECONDS):
        await proxy.done.wait(
            2, lambda call: (call.verb, call.resource) == ("patch", CONFIGURATIONS)
        )


async def play(stage: Stage, proxy: Proxy) -> None:
    """Cause everything that the controllers do, one after another."""
    await stage.create(ours("NetworkPool", "lab", {"cidr": "10.40.0.0/26"}))
    await stage.create(provider("default"))
    scoped = provider("scoped", scope={"type": "team", "teamRef": {"name": "one"}})
    await stage.create(scoped)
    await stage.create(cluster("shop"))  # names no ProviderConfig: the platform may have a default
    await stage.create(cluster("lost"))  # has no kubeconfig
    await stage.create(cluster("away"))  # does not answer
    await stage.create(cluster("early", providerConfigRef={"name": "later"}))
    await stage.create(make_early_request())
    await stage.create(make_orphan())
    await stage.until(lambda s: {"team-shop-lb", "team-shop-nodes"} <= s.list_allocated())
    ready = {"status": {"phase": "Ready"}}
    await stage.send("PATCH", f"{_path('TenantCluster', 'shop', 'team')}/status", ready)
    away = {"status": {"tenantNamespace": "team", "phase": "Ready"}}
    await stage.send("PATCH", f"{_path('TenantCluster', 'away', 'team')}/status", away)
    await stage.until(lambda s: "left" not in s.objects("IPAllocation"))

    # Two Services where one has an address: the tenant grows, and shrinks when one is gone.
    for name in ("one", "two"):
        spec = {"type": "LoadBalancer", "ports": [{"port": 80}]}
        await stage.create(plain("Service", name, "default", spec=spec), inside=True)
    await stage.until(lambda s: "team-shop-lb-1" in s.list_allocated())
    for name in ("one", "two"):
        await stage.send("DELETE", f"/api/v1/namespaces/default/services/{name}", inside=True)
    await stage.until(lambda s: "team-shop-lb-1" not in s.objects("IPAllocation"))

    # More failures than get an event each: the shared one becomes a series.
    failed = {f"large-{number}" for number in range(FAILURES)}
    for name in sorted(failed):
        await stage.create(make_too_large_request(name))
    await stage.until(
        lambda s: (
            failed
            <= {
                n
                for n, allocation in s.objects("IPAllocation").items()
                if allocation.status.phase == "Failed"
            }
        )
    )
    for name in sorted(failed):
        await stage.send("DELETE", _path("IPAllocation", name))

    await stage.until(lambda s: is_projection_begun(s.objects("TenantCluster")["away"]))
    await stage.send("DELETE", "/api/v1/namespaces/team/secrets/away-admin-kubeconfig")
    given_up = {"metadata": {"annotations": {names.ANNOTATION_RELEASE_ANYWAY: "true"}}}
    await stage.send("PATCH", _path("TenantCluster", "lost", "team"), given_up)
    await stage.send("DELETE", _path("IPAllocation", "early"))
    for name in ("shop", "lost", "away", "early"):
        await stage.send("DELETE", _path("TenantCluster", name, "team"))
    await stage.until(lambda s: not s.objects("TenantCluster"))
    await stage.until(lambda s: not s.objects("IPAllocation"))
    for name in ("default", "scoped"):
        await stage.send("DELETE", _path("ProviderConfig", name))
    await stage.send("DELETE", _path("NetworkPool", "lab"))
    await stage.until(lambda s: not s.objects("ProviderConfig") and not s.objects("NetworkPool"))
    with anyio.fail_after(SECONDS):
        await proxy.done.wait(1, lambda call: (call.verb, call.resource) == ("patch", "events"))


@pytest.mark.slow
async def test_the_whole_flow_needs_every_rule_of_the_shipped_roles_and_no_other(
    plane: Plane, tmp_path: Path
) -> None:
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        tenant = await enter(ControlPlane.start())
        proxy = await enter(Proxy.before(plane))
        await plane.install_crds(crd.crds())
        http, inside = await enter(client(plane)), await enter(client(tenant))
        await tenant.install_crds(standin.read_metallb_crds())
        await inside.post("/api/v1/namespaces", json=plain("Namespace", "metallb-system", None))
        await enter(stand_in(tenant, tmp_path))
        watching = await connect(plane.write_kubeconfig(tmp_path / "admin"))
        stack.push_async_callback(watching.aclose)
        stage = Stage(http, inside, watching)
        await enter(run_in_background([informer.run for informer in stage.watched]))
        await prepare(stage, tenant.kubeconfig())

        await plane.add_user(
            ACCOUNT,
            ["system:serviceaccounts", f"system:serviceaccounts:{HOME}", "system:authenticated"],
        )
        transport = await connect(proxy.write_kubeconfig(tmp_path / "own", ACCOUNT))
        stack.push_async_callback(transport.aclose)
        manager = Manager(transport, options=OPTIONS)
        ways = assemble(manager, SystemClock(), SETTINGS)
        stack.push_async_callback(ways.aclose)
        await enter(run_in_background([manager.run]))
        await manager.wait_serving()
        await call_webhooks(stage, proxy, manager.webhook_port)
        await play(stage, proxy)
        metrics = await scrape(stage, manager)

    refused = [line for line in metrics.splitlines() if 'code="403"' in line]
    assert refused == [], "the shipped roles do not suffice"
    calls = list(proxy.calls)
    unused = [str(rule) for rule in list_rules() if not any(rule.covers(call) for call in calls)]
    assert not unused, "rules that nothing needed:\n" + "\n".join(unused)


def test_what_roles_allow_is_distinguished_by_name() -> None:
    role: Mapping[str, Any] = {"verb": "get", "group": "", "resource": "secrets"}
    rule = Rule("r", HOME, **role, names=("a",))
    call = Call("GET", "/", {}, verb="get", resource="secrets", namespace=HOME, name="a")
    assert rule.covers(call)
    other = Call("GET", "/", {}, verb="get", resource="secrets", namespace=HOME, name="b")
    assert not rule.covers(other)
