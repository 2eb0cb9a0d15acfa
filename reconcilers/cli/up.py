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
from reconcilers.cli.local.platform import LocalPlatform, LocalTenant, describe_start, run_platform
from reconcilers.cli.local.servers import (
    ApiServer,
    check_kubeconfig,
    choose_kubeconfig_path,
    collect_garbage_less_often,
    run_servers,
    write_kubeconfig,
)
from reconcilers.cli.problems import print_problem
from reconcilers.cli.progress import count_progress, show_progress_during
from reconcilers.cli.sharedflags import load_balancer_option, log_level_option, server_options
from reconcilers.configuration.settings import Settings

TENANT = "tenant"
DEFAULT_CLUSTER = Key("team-a", "sandbox")
"""The TenantCluster of the tenant's API server, if no sample has the load balancer."""
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
    collect_garbage_less_often()
    logs.configure_logs("console", log_level)
    platform_path = choose_kubeconfig_path(kubeconfig, data, _KUBECONFIG)
    tenant_path = platform_path.with_name(f"{platform_path.stem}-tenant{platform_path.suffix}")
    paths = (platform_path, tenant_path)
    # Checked before the servers start: a path that must not be overwritten ends the command.
    for path in paths:
        check_kubeconfig(path)
    samples = documents("samples") if with_samples else []
    try:
        run_servers(partial(_serve_platform, data, paths, samples, load_balancer))
    except Interrupted:
        click.echo("stopped")


async def _serve_platform(
    data: Path | None,
    kubeconfig_paths: tuple[Path, Path],
    samples: Sequence[Manifest],
    provider: str,
) -> None:
    """Run the platform until cancelled: write the kubeconfigs, apply the samples, print a summary.

    Args:
        data: the folder that keeps the objects; None keeps them in memory.
        kubeconfig_paths: the file for the kubeconfig of the platform, and that for the tenant.
        samples: the manifests to apply.
        provider: the load balancer of tenants, as a TenantCluster names it.
    """
    click.echo(describe_start(provider))
    cluster = _find_first_cluster(samples, provider) or DEFAULT_CLUSTER
    controllers = {names.COMPONENT: Settings()}
    tenants = [LocalTenant(TENANT, cluster)]
    starting = run_platform(
        tenants, SystemClock(), replicas=controllers, data=data, provider=provider
    )
    async with starting as running_platform:
        write_kubeconfig(kubeconfig_paths[0], running_platform.management.kubeconfig)
        write_kubeconfig(kubeconfig_paths[1], running_platform.tenants[cluster].kubeconfig)
        with show_progress_during("applying samples"):
            applied = await apply_samples(running_platform.management, samples)
        click.echo(
            _describe_platform(
                running_platform, cluster, kubeconfig_paths=kubeconfig_paths, applied=applied
            )
        )
        await anyio.sleep_forever()


async def apply_samples(server: ApiServer, samples: Sequence[Manifest]) -> int:
    """Apply the samples, and return how many the server accepted.

    For a sample that is not accepted, and for each warning of the server, print a warning.
    """
    namespaces = (document["metadata"].get("namespace") for document in samples)
    await make_namespaces(server.transport, filter(None, namespaces))
    applied = 0
    async with server.connect() as transport:
        for document in count_progress(samples):
            name = f"sample {document['kind']} {document['metadata']['name']}"
            # Only HttpTransport reads the warnings that a server sends with an answer.
            if isinstance(transport, HttpTransport):
                transport.on_warning = partial(_print_warning, name)
            try:
                await apply(transport, _add_last_applied(document))
            except ControllerError as error:
                # A rejected sample does not stop the others: the platform is useful without it.
                print_problem("warning", f"{name} was not applied: {error}")
            else:
                applied += 1
    return applied


def _print_warning(name: str, message: str) -> None:
    """Print a warning of the API server about the sample `name`."""
    print_problem("warning", f"{name}: {message}")


def _describe_platform(
    running_platform: LocalPlatform,
    cluster: Key,
    kubeconfig_paths: tuple[Path, Path],
    applied: int,
) -> str:
    """Return the lines about the running servers, with the commands to look at them."""
    management, tenant = running_platform.management, running_platform.tenants[cluster]
    running = f"controllers and webhooks run, {applied} samples"
    pools = running_platform.balancer.kinds[0].plural
    inside = f"{running_platform.balancer.name}; TenantCluster {cluster}"
    return "\n".join(
        [
            f"platform   {management.url}   {management.description}; {running}",
            f"tenant     {tenant.url}   {tenant.description}, {inside}",
            "",
            f"  export KUBECONFIG={kubeconfig_paths[0]}",
            "  kubectl get networkpools,ipallocations,tenantclusters -A",
            f"  kubectl --kubeconfig {kubeconfig_paths[1]} get {pools},services -A",
            "",
            "Ctrl-C ends it.",
        ]
    )


def _add_last_applied(document: Manifest) -> Manifest:
    """Return a manifest with the annotation last-applied-configuration.

    A later `kubectl apply` then treats the object as if kubectl had applied it before.
    """
    # kubectl writes the annotations into its note, even if there are none.
    meta = {"annotations": {}, **document["metadata"]}
    last_applied = json.dumps(
        {**document, "metadata": meta}, sort_keys=True, separators=(",", ":")
    )
    annotations = {**meta["annotations"], LAST_APPLIED: f"{last_applied}\n"}
    return {**document, "metadata": {**meta, "annotations": annotations}}


def _find_first_cluster(samples: Sequence[Manifest], provider: str) -> Key | None:
    """Return the first sample TenantCluster with a load balancer; None if there is none."""
    for document in samples:
        if document["kind"] == "TenantCluster" and _read_provider(document) == provider:
            meta = document["metadata"]
            return Key(meta.get("namespace", "default"), meta["name"])
    return None


def _read_provider(cluster: Manifest) -> str:
    """Return the load balancer that a TenantCluster names."""
    addon = cluster["spec"].get("addons", {}).get("loadBalancer", {})
    provider: str = addon.get("provider", DEFAULT_LOAD_BALANCER)
    return provider
