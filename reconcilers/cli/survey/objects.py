"""The objects that questions are asked about: all of a cluster, or what files hold of one."""

import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from threading import Event, Thread
from typing import Any, TypeVar

import anyio
import click

from controller.errors import ApiError, ConfigurationError, ControllerError, Forbidden, NotFound
from controller.meta import Key, Object
from controller.resource import Resource
from reconcilers.api import names
from reconcilers.api.ipallocation import IPAllocation
from reconcilers.api.networkpool import NetworkPool
from reconcilers.api.providerconfig import ProviderConfig
from reconcilers.api.resources import (
    IP_ALLOCATION,
    NETWORK_POOL,
    PROVIDER_CONFIG,
    TENANT_CLUSTER,
)
from reconcilers.api.tenantcluster import TenantCluster
from reconcilers.cli.flags import cluster_options, option, with_options
from reconcilers.cli.problems import WRONG_INPUT, Problem, say
from reconcilers.cli.reading.findings import Findings
from reconcilers.cli.reading.manifests import Manifest, read

T = TypeVar("T", bound=Object)
F = TypeVar("F", bound=Callable[..., Any])
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Scope:
    """Where to look.

    Args:
        kubeconfig: a file; None looks where kubectl looks.
        context: one in the kubeconfig; None takes its current one.
        namespace: only this one; empty for all.
        files: read these instead of a cluster.
    """

    kubeconfig: Path | None = None
    context: str | None = None
    namespace: str = ""
    files: tuple[str, ...] = ()


def scope_options(function: F) -> F:
    """Give a command the options that `scope` reads."""
    return with_options(
        function,
        cluster_options,
        option(
            *("-n", "--namespace"), default="", help="Only this namespace; all of them if absent."
        ),
        option(
            *("-A", "--all-namespaces"),
            is_flag=True,
            help="All namespaces, whatever --namespace says.",
        ),
        option(
            *("-f", "--filename"),
            multiple=True,
            metavar="FILE|FOLDER|-",
            help="Read what was saved with `kubectl get -o yaml` instead of a cluster.",
        ),
    )


def scope(values: Mapping[str, Any]) -> Scope:
    """Return where to look, by the values of the options."""
    namespace = "" if values["all_namespaces"] else values["namespace"]
    return Scope(values["kubeconfig"], values["context"], namespace, tuple(values["filename"]))


@dataclass(frozen=True, slots=True)
class Objects:
    """Everything of ours that there is.

    Args:
        pools: by namespace and name.
        allocations: the same.
        clusters: the same; of all namespaces, as allocations refer across them.
        providers: the same.
        unreadable: objects that could not be decoded, by kind and key, with the reason.
        live: whether they were read from a cluster.
        owners_known: whether all clusters were read, so that one that is missing is gone.
    """

    pools: Mapping[Key, NetworkPool]
    allocations: Mapping[Key, IPAllocation]
    clusters: Mapping[Key, TenantCluster]
    providers: Mapping[Key, ProviderConfig]
    unreadable: Mapping[tuple[str, Key], str] = field(default_factory=dict)
    live: bool = True
    owners_known: bool = True

    def by_pool(self) -> list[tuple[NetworkPool, list[IPAllocation]]]:
        """Return each pool's blocks with the allocations that name it, by namespace and name."""
        found: dict[Key, list[IPAllocation]] = {}
        for one in self.allocations.values():
            found.setdefault(one.pool_key, []).append(one)
        pools = (one for key in sorted(self.pools) for one in self.pools[key].blocks)
        return [(one, found.get(one.metadata.key, [])) for one in pools]

    def by_tenant(self) -> list[tuple[TenantCluster, list[IPAllocation]]]:
        """Return each tenant with the allocations for it, all by namespace and name."""
        found: dict[Key, list[IPAllocation]] = {key: [] for key in sorted(self.clusters)}
        for one in sorted_by_key(self.allocations):
            found.get(one.spec.tenantClusterRef.key, []).append(one)
        return [(self.clusters[key], members) for key, members in found.items()]

    def pool_named(self, name: str) -> NetworkPool:
        """Return the pool of a name, which may be `namespace/name`.

        Raises:
            Problem: there is none, or there are several.
        """
        found = [pool for key, pool in self.pools.items() if name in {key.name, f"{key}"}]
        if len(found) == 1:
            return found[0]
        if found:
            keys = ", ".join(sorted(str(pool.metadata.key) for pool in found))
            raise Problem(f"several NetworkPools are named {name!r}: {keys}; say which with -n")
        known = ", ".join(sorted(str(key) for key in self.pools)) or "none"
        raise Problem(f"there is no NetworkPool {name!r}; there are: {known}")


def survey(where: Scope) -> Objects:
    """Return the objects of a where.

    Raises:
        Problem: the cluster or the files cannot be read.
    """
    if where.files:
        with progress("reading files"):
            return _of_files(where)
    return in_cluster(
        where,
        "reading the cluster's objects",
        lambda client: read_objects(client, where.namespace),
    )


def in_cluster(where: Scope, what: str, work: Callable[[Any], Awaitable[R]]) -> R:
    """Return what `work` finds in the cluster of a where.

    Args:
        where: the cluster.
        what: is going on, for `progress`.
        work: takes a `controller.client.Client`.

    Raises:
        Problem: the cluster cannot be reached, or refuses.
    """

    async def connected() -> R:
        from controller.client import Client
        from controller.config import connect

        transport = await connect(where.kubeconfig, where.context, user_agent="butler-ipam")
        try:
            return await work(Client(transport, field_manager="butler-ipam"))
        finally:
            with anyio.CancelScope(shield=True):
                await transport.aclose()

    try:
        with progress(what):
            return anyio.run(connected)
    except (ConfigurationError, ControllerError) as error:
        raise Problem(_why_not(error, where)) from error


async def read_objects(client: Any, namespace: str = "") -> Objects:
    """Read all objects of ours over a client.

    Args:
        client: a `controller.client.Client`.
        namespace: of the pools, allocations and providers; empty for all. Their clusters may live
            anywhere.

    Raises:
        ControllerError: the cluster did not answer, or refused.
    """
    unreadable: dict[tuple[str, Key], str] = {}

    async def listed(resource: Resource[T], within: str = namespace) -> dict[Key, T]:
        page = await client.list(resource, namespace=within)
        for key, reason in page.unreadable.items():
            unreadable[resource.kind, key] = reason
        return {item.metadata.key: item for item in page.items}

    # Clusters last: whoever owns an allocation was there before it, so none looks like an orphan
    # only because its owner was created while we read.
    allocations = await listed(IP_ALLOCATION)
    pools = await listed(NETWORK_POOL)
    providers = await listed(PROVIDER_CONFIG)
    owners_known = True
    try:
        clusters = await listed(TENANT_CLUSTER, "")
    except Forbidden:
        if not namespace:
            raise
        owners_known = False
        clusters = await listed(TENANT_CLUSTER)
    return Objects(pools, allocations, clusters, providers, unreadable, owners_known=owners_known)


def _of_files(where: Scope) -> Objects:
    findings = Findings()
    manifests = read(
        where.files,
        namespace=where.namespace or names.DEFAULT_NAMESPACE,
        now=datetime.now(UTC),
        findings=findings,
    )
    for finding in findings:
        if finding.severity != "note":  # what was passed over is no surprise in a whole cluster
            say(finding.severity, finding.sentence)
    if findings.wrong:
        click.get_current_context().meta[WRONG_INPUT] = True
    if not manifests.every():
        raise Problem(f"nothing of ours was found in {', '.join(where.files)}")

    def keyed(found: Sequence[Manifest[T]]) -> dict[Key, T]:
        within = (one for one in found if where.namespace in {"", one.key.namespace})
        return {one.key: one.object for one in within}

    unreadable = dict.fromkeys(manifests.refused, "it is wrong, see above")
    return Objects(
        keyed(manifests.pools),
        keyed(manifests.allocations),
        {one.key: one.object for one in manifests.tenants},
        keyed(manifests.providers),
        unreadable,
        live=False,
        owners_known=bool(manifests.tenants),
    )


def _why_not(error: Exception, where: Scope) -> str:
    """Return why a cluster could not be read, and what to do about it."""
    if isinstance(error, Forbidden) and not where.namespace:
        return f"{error}; name a namespace that you may read with -n"
    if isinstance(error, NotFound):
        return f"{error}; are the CRDs installed? `butler-ipam crds | kubectl apply -f -`"
    before = "the API server refused to be read: " if isinstance(error, ApiError) else ""
    return f"{before}{error}"


def sorted_by_key(found: Mapping[Key, T]) -> list[T]:
    """Return objects by namespace and name."""
    return [found[key] for key in sorted(found)]


PROGRESS_SECONDS = 1.0
"""From one line to the next, and until the first."""


@contextmanager
def progress(what: str, every: float = PROGRESS_SECONDS) -> Iterator[None]:
    """Print on standard error what is going on, while it is; on a terminal only.

    A thread does that, as some of the work (reading large files, working out large pools)
    leaves an event loop no moment to do so.

    Args:
        what: is going on, for example `reading files`.
        every: seconds.
    """
    if not sys.stderr.isatty():
        yield
        return
    over = Event()

    def report() -> None:
        seconds = 0.0
        while not over.wait(every):
            seconds += every
            click.echo(f"\r{what} ... {seconds:.0f} s", err=True, nl=False)
        if seconds:
            click.echo("\r\033[K", err=True, nl=False)

    reporter = Thread(target=report, daemon=True)
    reporter.start()
    try:
        yield
    finally:
        over.set()
        reporter.join()
