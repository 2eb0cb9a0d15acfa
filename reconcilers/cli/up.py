"""`butler-ipam up`: a platform to try things on, with samples, until Ctrl-C."""

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import anyio
import click

from controller import logs
from controller.clock import SystemClock
from controller.errors import ControllerError
from controller.httptransport import HttpTransport
from controller.meta import Key
from manifests import documents
from reconcilers.api import names
from reconcilers.api.tenantaddons import DEFAULT_LOAD_BALANCER
from reconcilers.cli.flags import option
from reconcilers.cli.interrupts import Interrupted
from reconcilers.cli.local.objects import Manifest, apply, make_namespaces
from reconcilers.cli.local.platform import LocalPlatform, LocalTenant, announcement, platform
from reconcilers.cli.local.servers import (
    ApiServer,
    check_kubeconfig,
    collect_less_often,
    kubeconfig_path,
    run_servers,
    write_kubeconfig,
)
from reconcilers.cli.problems import say
from reconcilers.cli.progress import count_progress, progress
from reconcilers.cli.sharedflags import load_balancer_option, log_level_option, server_options
from reconcilers.configuration.settings import Settings

TENANT = "tenant"
DEFAULT_CLUSTER = Key("team-a", "sandbox")
"""The TenantCluster that the tenant's API server is, where no sample names one."""
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_KUBECONFIG = "platform.kubeconfig"


@click.command()
@server_options("the kubeconfig of the platform, and that of the tenant beside it,", _KUBECONFIG)
@option(
    "--samples/--no-samples",
    "with_samples",
    default=True,
    help="Load the samples: NetworkPools, ProviderConfigs and a TenantCluster.",
)
@load_balancer_option()
@log_level_option(default="error")
def up(
    *,
    data: Path | None,
    kubeconfig: Path | None,
    with_samples: bool,
    load_balancer: str,
    log_level: str,
) -> None:
    """Start local API servers, controllers and samples, until Ctrl-C.

    One API server is that of the platform, where the controllers and their admission webhooks
    work. Another is that of one tenant. Both are embedded, or real ones if KUBEBUILDER_ASSETS
    names a folder with etcd and kube-apiserver. In the tenant a stand-in takes the load
    balancer's place, unless that folder has its program, too: MetalLB's controller as
    metallb-controller, Cilium's LB-IPAM as cilium-lbipam. The tenant is the first TenantCluster
    of the samples that has the load balancer of --load-balancer.
    """
    collect_less_often()
    logs.configure_logs("console", log_level)
    place = kubeconfig_path(kubeconfig, data, _KUBECONFIG)
    tenant_place = place.with_name(f"{place.stem}-tenant{place.suffix}")
    for path in (place, tenant_place):
        check_kubeconfig(path)
    samples = documents("samples") if with_samples else []
    try:
        run_servers(partial(_up, data, (place, tenant_place), samples, load_balancer))
    except Interrupted:
        click.echo("stopped")


async def _up(
    data: Path | None, places: tuple[Path, Path], samples: Sequence[Manifest], provider: str
) -> None:
    click.echo(announcement(provider))
    cluster = _first_cluster(samples, provider) or DEFAULT_CLUSTER
    controllers = {names.COMPONENT: Settings()}
    tenants = [LocalTenant(TENANT, cluster)]
    running = platform(tenants, SystemClock(), replicas=controllers, data=data, provider=provider)
    async with running as whole:
        write_kubeconfig(places[0], whole.management.kubeconfig)
        write_kubeconfig(places[1], whole.tenants[cluster].kubeconfig)
        with progress("applying samples"):
            applied = await load(whole.management, samples)
        click.echo(_description(whole, cluster, places=places, applied=applied))
        await anyio.sleep_forever()


async def load(server: ApiServer, samples: Sequence[Manifest]) -> int:
    """Apply the samples; one that is refused stops none of the others. Return how many went."""
    namespaces = (document["metadata"].get("namespace") for document in samples)
    await make_namespaces(server.transport, filter(None, namespaces))
    applied = 0
    async with server.connect() as transport:
        for document in count_progress(samples):
            name = f"sample {document['kind']} {document['metadata']['name']}"
            if isinstance(transport, HttpTransport):
                transport.on_warning = partial(_warn, name)
            try:
                await apply(transport, _as_kubectl_applies(document))
            except ControllerError as refused:
                say("warning", f"{name} was not applied: {refused}")
            else:
                applied += 1
    return applied


def _warn(name: str, message: str) -> None:
    say("warning", f"{name}: {message}")


def _description(
    whole: LocalPlatform, cluster: Key, places: tuple[Path, Path], applied: int
) -> str:
    management, tenant = whole.management, whole.tenants[cluster]
    running = f"controllers and webhooks run, {applied} samples"
    pools = whole.balancer.kinds[0].plural
    inside = f"{whole.balancer.name}; TenantCluster {cluster}"
    return "\n".join(
        [
            f"platform   {management.url}   {management.what}; {running}",
            f"tenant     {tenant.url}   {tenant.what}, {inside}",
            "",
            f"  export KUBECONFIG={places[0]}",
            "  kubectl get networkpools,ipallocations,tenantclusters -A",
            f"  kubectl --kubeconfig {places[1]} get {pools},services -A",
            "",
            "Ctrl-C ends it.",
        ]
    )


def _as_kubectl_applies(document: Manifest) -> Manifest:
    """Return `document` with the note that `kubectl apply` leaves, so that it can take over."""
    meta = {"annotations": {}, **document["metadata"]}
    last_applied = json.dumps(
        {**document, "metadata": meta}, sort_keys=True, separators=(",", ":")
    )
    noted = {**meta["annotations"], LAST_APPLIED: f"{last_applied}\n"}
    return {**document, "metadata": {**meta, "annotations": noted}}


def _first_cluster(samples: Sequence[Manifest], provider: str) -> Key | None:
    """Return the first TenantCluster among the samples that has this load balancer."""
    for document in samples:
        if document["kind"] == "TenantCluster" and _provider_of(document) == provider:
            meta = document["metadata"]
            return Key(meta.get("namespace", "default"), meta["name"])
    return None


def _provider_of(cluster: Manifest) -> str:
    """Return the load balancer that a TenantCluster names."""
    addon = cluster["spec"].get("addons", {}).get("loadBalancer", {})
    provider: str = addon.get("provider", DEFAULT_LOAD_BALANCER)
    return provider
