"""The queries of dashboard and alerts find series in a Prometheus that has real scrapes.

A scrape of running controllers is written twice into a Prometheus database, a minute apart. Every
query of the dashboard and every metric of the alerts is evaluated on it: a query without result
uses a metric or a label that does not exist. The pool has two families, and each series of a panel
has a legend of its own.
"""

import json
import re
import shutil
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from controller.clock import SystemClock
from controller.config import connect
from controller.informer import Informer
from controller.jobs import run_in_background
from controller.manager import Manager
from controller.options import ManagerOptions, SelfSigned
from envtest import ControlPlane
from manifests import rendering
from reconcilers.api import crd, names
from reconcilers.api.resources import IP_ALLOCATION, TENANT_CLUSTER
from reconcilers.api.tenantcluster import DEMAND_MET, LOAD_BALANCER_READY
from reconcilers.cli.managerflags import LEASE_NAME
from reconcilers.configuration.integrationnames import CLUSTER_API, KUBERMATIC, METAL3, VITISTACK
from reconcilers.configuration.settings import Settings
from reconcilers.integrations.clusterapi import crds
from reconcilers.wiring import assemble
from tests.contract.clusterapi.lab import IPAM, ClusterApiLab
from tests.contract.kubermatic.lab import KubermaticLab, make_range_settings
from tests.contract.metal3.lab import Metal3Lab
from tests.contract.vitistack.lab import VitistackLab
from tests.hidden_identity import make_hidden_opener
from tests.polling import SECONDS
from tests.yamls import read_yaml

PROMETHEUS = Path(rendering.__file__).parent / "prometheus"
HOME = names.DEFAULT_NAMESPACE
METRIC = re.compile(r"\b(?:butler|controller|workqueue|leader)_[a-z_]+\b(?!:)")
DATA = Path(__file__).parents[1] / "data"
PLATFORMS = (CLUSTER_API, KUBERMATIC, METAL3, VITISTACK)
SETTINGS = Settings(integration=PLATFORMS)
SCRAPE_INTERVAL = 60
"""Seconds between the times of the two scrapes in the database."""
OPTIONS = ManagerOptions(
    leader_elect=True,
    lease_namespace=HOME,
    lease_name=LEASE_NAME,
    metrics_bind="127.0.0.1:0",
    webhook_bind="127.0.0.1:0",
    webhook_self_signed=SelfSigned(HOME, "butler-ipam-webhook", "certificates"),
)


def read_dashboard_queries() -> dict[str, tuple[str, str]]:
    """Return the expression and the legend of each query of the dashboard, by panel.

    The variables of the dashboard are replaced by ".*", so that they select everything.
    """
    board = json.loads((PROMETHEUS / "dashboard.json").read_text())
    expressions = {}
    for panel in board["panels"]:
        for target in panel.get("targets", []):
            expression = re.sub(r"\$(namespace|pool)", ".*", target["expr"])
            name = f"{panel['title']} {target['refId']} ({panel['id']})"
            expressions[name] = expression, target["legendFormat"]
    return expressions


def format_legend(labels: dict[str, str], legend: str) -> str:
    """Return the text of a legend for a series.

    Args:
        labels: the labels of the series.
        legend: the legend, with labels as "{{name}}".
    """
    return re.sub(r"\{\{(\w+)\}\}", lambda label: labels.get(label[1], ""), legend)


def read_alert_metrics() -> dict[str, str]:
    """Return the metrics of the alerts' expressions, by alert and metric."""
    rule = read_yaml((PROMETHEUS / "alerts.yaml").read_text())
    expressions = {}
    for group in rule["spec"]["groups"]:
        for alert_rule in group["rules"]:
            for metric in re.findall(METRIC, alert_rule["expr"]):
                expressions[f"{alert_rule.get('alert', alert_rule.get('record'))}: {metric}"] = (
                    metric
                )
    return expressions


POOL = {"cidr": "10.4.0.0/24", "secondary": {"cidr": "fd00:4::/64"}}
PROVIDER = {
    "provider": "proxmox",
    "credentialsRef": {"name": "none"},
    "proxmox": {"endpoint": "https://p", "nodes": ["a"], "storage": "s"},
    "network": {
        "mode": "ipam",
        "poolRefs": [{"name": "lab"}],
        "loadBalancer": {"allocationMode": "elastic"},
    },
}
TENANT = {
    "kubernetesVersion": "v1.31.0",
    "providerConfigRef": {"name": "proxmox"},
    "workers": {"replicas": 1},
}


def make_allocation_spec(count: int) -> dict[str, Any]:
    """Return the spec of an IPAllocation of a number of addresses of the pool `lab`."""
    return {
        "poolRef": {"name": "lab"},
        "tenantClusterRef": {"namespace": "team", "name": "one"},
        "type": "nodes",
        "count": count,
    }


async def _create_kubeconfig_secret(http: httpx.AsyncClient, tenant: str, kubeconfig: str) -> None:
    """Create the Secret with a tenant's kubeconfig that the controllers read."""
    body = {
        "metadata": {"name": f"{tenant}-admin-kubeconfig"},
        "stringData": {"admin.conf": kubeconfig},
    }
    response = await http.post(f"/api/v1/namespaces/{HOME}/secrets", json=body)
    assert response.status_code == 201, response.text


async def create_object(
    http: httpx.AsyncClient, plural: str, name: str, spec: dict[str, Any]
) -> None:
    """Create an object of one of our kinds in HOME."""
    kind = {kind_of_ours.plural: kind_of_ours.kind for kind_of_ours in crd.KINDS}[plural]
    body = {
        "apiVersion": names.API_VERSION,
        "kind": kind,
        "metadata": {"name": name},
        "spec": spec,
    }
    path = f"/apis/{names.API_VERSION}/namespaces/{HOME}/{plural}"
    response = await http.post(path, json=body)
    assert response.status_code == 201, response.text


async def _fill_clusterapi_pool(http: httpx.AsyncClient) -> None:
    """Create an InClusterIPPool that serves one claim and is full for another.

    An IPAddress of the pool has an address outside its range.
    """
    lab = ClusterApiLab(http, HOME)
    ref = {"apiGroup": IPAM, "kind": "InClusterIPPool", "name": "machines"}
    spec = {"claimRef": {"name": "out"}, "poolRef": ref, "address": "10.5.0.9", "prefix": 24}
    await lab.create("IPAddress", "out", spec)
    await lab.create_pool("machines", "10.5.0.1")
    await lab.create_claim("served", "machines")
    await lab.wait_until_served("served")
    await lab.create_claim("waiting", "machines")
    await lab.wait_for_reason("waiting", "PoolExhausted")
    await lab.wait_for_counts("machines", total=1, used=2, free=0, out_of_range=1)


async def _fill_kkp_pool(http: httpx.AsyncClient) -> None:
    """Create an IPAMPool that serves one Cluster of KKP and is full for another.

    An IPAMAllocation of the pool has addresses outside its range.
    """
    lab = KubermaticLab(http, "site")
    await lab.create_namespace("c")
    await lab.create_allocation("c", "pool", type="range", addresses=["10.6.0.9-10.6.0.9"])
    await lab.create_pool("pool", dc=make_range_settings("10.6.0.0/31", 2))
    await lab.create_cluster("a")
    await lab.wait_for_ranges("a", "pool", "10.6.0.0-10.6.0.1")
    await lab.create_cluster("b")
    await lab.wait_for_condition("b", "False", "PoolExhausted")


async def _fill_vitistack_network(http: httpx.AsyncClient) -> None:
    """Create a NetworkNamespace that serves one IPAllocation and is full for another.

    A third IPAllocation has an address outside its range.
    """
    lab = VitistackLab(http, HOME)
    await lab.create_allocation("out")
    path = f"{lab.build_path('IPAllocation', 'out')}/status"
    await lab.patch(path, {"status": {"phase": "Allocated", "address": "10.0.2.99"}})
    await lab.create_network(ipv4RangeStart="10.0.2.7", ipv4RangeEnd="10.0.2.7")
    await lab.create_allocation("one")
    await lab.wait_for_phase("one", "Allocated")
    await lab.create_allocation("two")
    await lab.wait_until_refused("two", "no available IP addresses")


async def _fill_metal3_pool(http: httpx.AsyncClient) -> None:
    """Create an IPPool that serves one claim and is full for another.

    An IPAddress of the pool has an address outside its range.
    """
    lab = Metal3Lab(http, HOME)
    spec = {"address": "10.7.0.9", "pool": {"name": "metal"}, "claim": {"name": "out"}}
    await lab.create("IPAddress", "outside", spec)
    await lab.create_pool("metal", {"start": "10.7.0.1", "end": "10.7.0.1"})
    await lab.create_claim("served", "metal")
    await lab.wait_until_served("served")
    await lab.create_claim("waiting", "metal")
    await lab.wait_until_refused("waiting", "Exhausted IP Pools")


@asynccontextmanager
async def run_controllers(folder: Path) -> AsyncIterator[tuple[httpx.AsyncClient, Manager]]:
    """Run all controllers on a server, and let them serve and refuse requests of each kind.

    The server is also the tenant of its TenantClusters, a tenant without MetalLB.

    Yields:
        A client of the server, and the manager of the controllers.
    """
    async with ControlPlane.start() as plane:
        await plane.install_crds([*crd.build_crds(), *crds.build_pool_crds()])
        for platform in PLATFORMS:
            await plane.install_crds(DATA / platform / "crds.yaml")
        kubeconfig = plane.write_kubeconfig(folder / "kubeconfig")
        transport = await connect(kubeconfig)
        manager = Manager(transport, options=OPTIONS)
        controllers = assemble(
            manager,
            SystemClock(),
            settings=SETTINGS,
            open_tenant=make_hidden_opener(SETTINGS.tenant),
        )
        informer = Informer(IP_ALLOCATION, transport, SystemClock())
        clusters = Informer(TENANT_CLUSTER, transport, SystemClock())
        changed_event = [anyio.Event()]
        informer.add_handler(lambda _: changed_event[0].set())
        clusters.add_handler(lambda _: changed_event[0].set())

        def are_tenants_reported() -> bool:
            reported_conditions = {
                (tenant.metadata.name, condition.type)
                for tenant in clusters.cache
                for condition in tenant.status.conditions
            }
            return {
                ("one", LOAD_BALANCER_READY),
                ("one", DEMAND_MET),
                ("observed", LOAD_BALANCER_READY),
            } <= reported_conditions

        def is_an_allocation_refused() -> bool:
            return {allocation.status.phase for allocation in informer.cache} == {
                "Allocated",
                "Failed",
            }

        async def until(is_done: Callable[[], bool]) -> None:
            with anyio.fail_after(SECONDS):
                while not is_done():
                    changed_event[0] = anyio.Event()
                    await changed_event[0].wait()

        async with httpx.AsyncClient(
            base_url=plane.url,
            verify=plane.create_admin_tls(),
            headers=plane.build_admin_headers(),
        ) as http:
            await http.post("/api/v1/namespaces", json={"metadata": {"name": HOME}})
            async with run_in_background([manager.run, informer.run, clusters.run]):
                await manager.wait_serving()
                await create_object(http, "networkpools", name="lab", spec=POOL)
                await create_object(http, "providerconfigs", name="proxmox", spec=PROVIDER)
                await create_object(
                    http, "ipallocations", name="served", spec=make_allocation_spec(4)
                )
                await _create_kubeconfig_secret(
                    http, "one", await anyio.Path(kubeconfig).read_text()
                )
                await create_object(http, "tenantclusters", name="one", spec=TENANT)
                await _create_kubeconfig_secret(
                    http, "observed", await anyio.Path(kubeconfig).read_text()
                )
                observed = TENANT | {"managementPolicy": {"mode": "Observe"}}
                await create_object(http, "tenantclusters", name="observed", spec=observed)
                await until(are_tenants_reported)
                await create_object(
                    http, "ipallocations", name="refused", spec=make_allocation_spec(256)
                )
                await until(is_an_allocation_refused)
                await _fill_clusterapi_pool(http)
                await _fill_kkp_pool(http)
                await _fill_vitistack_network(http)
                await _fill_metal3_pool(http)
                yield http, manager
        await controllers.aclose()
        await transport.aclose()


async def scrape_metrics(manager: Manager) -> str:
    """Return the metrics of a manager in the text format of Prometheus."""
    async with httpx.AsyncClient() as http:
        return (await http.get(f"http://127.0.0.1:{manager.metrics_port}/metrics")).text


def stamp_lines(content: str, at: int) -> str:
    """Return a scrape as OpenMetrics lines.

    Args:
        content: the scrape, in the text format of Prometheus.
        at: the time of all samples, in seconds since 1970.

    Returns:
        The lines, with the labels `instance` and `job` that Prometheus adds.
    """
    lines = []
    for family in text_string_to_metric_families(content):
        for sample in family.samples:
            labels = {"instance": "here:8443", "job": "butler-ipam", **sample.labels}
            inner = ",".join(f"{name}={json.dumps(value)}" for name, value in labels.items())
            lines.append(f"{sample.name}{{{inner}}} {sample.value} {at}\n")
    return "".join(lines)


@asynccontextmanager
async def run_prometheus(folder: Path, content: str) -> AsyncIterator[httpx.AsyncClient]:
    """Run Prometheus on a database of OpenMetrics lines, and yield a client of it."""
    source, data = folder / "scrapes.om", folder / "data"
    await anyio.Path(source).write_text(content + "# EOF\n")
    await anyio.run_process(
        ["promtool", "tsdb", "create-blocks-from", "openmetrics", str(source), str(data)]
    )
    config = folder / "prometheus.yml"
    await anyio.Path(config).write_text("global: {}\n")
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    command = [
        "prometheus",
        f"--config.file={config}",
        f"--storage.tsdb.path={data}",
        "--storage.tsdb.retention.time=100y",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    async with await anyio.open_process(command, stdout=None) as process:
        assert process.stderr is not None
        log_output = b""
        with anyio.fail_after(SECONDS):
            while b"ready to receive web requests" not in log_output:
                log_output += await process.stderr.receive()
        try:
            async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as http:
                yield http
        finally:
            process.terminate()


async def test_every_query_of_the_dashboard_and_every_metric_of_the_alerts_has_series(
    tmp_path: Path,
) -> None:
    if not shutil.which("prometheus") or not shutil.which("promtool"):
        pytest.skip("no prometheus on this machine (Debian: prometheus); queries are not tried")
    async with run_controllers(tmp_path) as (_, manager):
        exposition = await scrape_metrics(manager)
    now = 1_700_000_000
    two_scrapes = stamp_lines(exposition, now) + stamp_lines(exposition, now + SCRAPE_INTERVAL)
    without_data, ambiguous = [], []
    async with run_prometheus(tmp_path, two_scrapes) as http:
        alerts = {name: (query, "") for name, query in read_alert_metrics().items()}
        for name, (query, legend) in (read_dashboard_queries() | alerts).items():
            answer = await http.get(
                "/api/v1/query", params={"query": query, "time": str(now + SCRAPE_INTERVAL)}
            )
            assert answer.status_code == 200, f"{name}: {answer.text}"
            series_list = answer.json()["data"]["result"]
            legends = [format_legend(series["metric"], legend) for series in series_list]
            if not series_list:
                without_data.append(f"{name}: {query}")
            if name not in alerts and len(set(legends)) < len(legends):
                ambiguous.append(f"{name}: {legends}")
    assert not without_data, "\n".join(without_data)
    assert not ambiguous, "series with the same name:\n" + "\n".join(ambiguous)
