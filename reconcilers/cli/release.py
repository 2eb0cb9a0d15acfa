"""`butler-ipam release`: say that a tenant is gone for good, so that its ranges are released.

The command sets the annotation `release-anyway` of a TenantCluster. From then on, ranges that wait
for the tenant are released without its word. Addresses that are still in use there are handed out
again, so the command shows them first and asks.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from controller.conditions import find
from controller.meta import Key, Version
from reconcilers import ranges
from reconcilers.addressmap.objects import Objects, sorted_by_key
from reconcilers.api import names
from reconcilers.api.ipallocation import IPAllocation
from reconcilers.api.resources import IP_ALLOCATION, TENANT_CLUSTER
from reconcilers.api.tenantcluster import TenantCluster
from reconcilers.cli import names as completed
from reconcilers.cli.cluster.objectnames import select_object
from reconcilers.cli.cluster.objects import Scope, in_cluster, namespace_option, read_all
from reconcilers.cli.flags import cluster_options, option
from reconcilers.cli.output import Cell, Column, fitted
from reconcilers.cli.problems import EXIT_PROBLEM, Problem, say
from reconcilers.conditions import READY
from reconcilers.integrations.core.scopedlists import limits_in
from reconcilers.tenantcluster.allocations.membership import is_foreign
from reconcilers.wording import count_noun

ROLE = "butler-ipam-release"
"""The shipped ClusterRole that grants the verb `release`."""
EDITOR_ROLE = "butler-ipam-editor"
"""The shipped ClusterRole that grants changes of TenantClusters."""

EPILOG = """
\b
Exit code:
  0  the annotation is set, or was set before
  1  nothing was changed; the message says why
  2  the command was called in a way that makes no sense
"""


@dataclass(frozen=True, slots=True)
class Release:
    """One range of the tenant, and what becomes of it.

    Args:
        allocation: the name of the IPAllocation that holds it, with its namespace.
        type: nodes or loadbalancer.
        range: the addresses.
        is_due: whether the range is released as soon as the annotation is set.
        services: the tenant's Services that use its addresses, as last seen.
        obstacle: what the release waits for; empty for nothing.
    """

    allocation: str
    type: str
    range: str
    is_due: bool
    services: tuple[str, ...]
    obstacle: str = ""

    @property
    def effect(self) -> str:
        """When the range is released."""
        return "now" if self.is_due else "if deleted"


_COLUMNS: Sequence[Column[Release]] = (
    Column("ALLOCATION", lambda release: release.allocation),
    Column("TYPE", lambda release: release.type, drop=2),
    Column("RANGE", lambda release: release.range),
    Column("RELEASED", lambda release: Cell(release.effect, "red" if release.is_due else None)),
    Column("SERVICES", lambda release: ", ".join(release.services) or None),
    Column("WAITS FOR", lambda release: Cell(release.obstacle or "-"), drop=1),
)


@click.command(epilog=EPILOG)
@click.argument(
    "name", metavar="[KIND/][NAMESPACE/]NAME", shell_complete=completed.tenants_and_allocations
)
@cluster_options
@namespace_option()
@option(*("-y", "--yes"), is_flag=True, help="Do not ask; required without a terminal.")
@click.pass_context
def release(
    ctx: click.Context,
    /,
    name: str,
    kubeconfig: Path | None,
    context: str | None,
    namespace: str,
    *,
    yes: bool,
) -> None:
    """Release a tenant's ranges without its word, because the tenant is gone for good.

    NAME is a TenantCluster, or an IPAllocation of it. The annotation release-anyway is set on the
    TenantCluster, so it counts for all of its IPAllocations that are being deleted, now or later.
    Addresses that are still in use are handed out again: switch the tenant's machines off before.
    """
    where = Scope(kubeconfig, context, namespace)
    objects = read_all(where, required=(TENANT_CLUSTER,))
    kind, key = select_object(name, objects, namespace)
    tenant = _tenant_of(kind, key, objects)
    tenant_name = f"TenantCluster {tenant.metadata.key}"
    if names.ANNOTATION_RELEASE_ANYWAY in tenant.metadata.annotations:
        click.echo(f"{tenant_name} has the annotation {names.ANNOTATION_RELEASE_ANYWAY} already")
        return
    releases = find_releases(tenant, objects)
    click.echo(_preview(tenant, releases), nl=False)
    if kind == IP_ALLOCATION.kind and not objects.allocations[key].metadata.terminating:
        say("note", f"IPAllocation {key} is not being deleted; its range is kept until it is")
    say(
        "warning",
        f"{tenant_name}: addresses that are still in use are handed out again; be sure that the"
        " machines of the tenant are off",
    )
    if not yes and not _is_confirmed(tenant_name):
        click.echo("nothing was changed", err=True)
        ctx.exit(EXIT_PROBLEM)
    in_cluster(where, "setting the annotation", lambda client: _annotate(client, tenant))
    due = sum(one.is_due for one in releases)
    click.echo(_result(tenant, due))


def find_releases(tenant: TenantCluster, objects: Objects) -> list[Release]:
    """Return the ranges of a cluster, and what the annotation does to each.

    A user who may not read all IPAllocations sees what the cluster's status shows.

    Args:
        tenant: the cluster.
        objects: the objects of the cluster.
    """
    network = tenant.status.network
    shown = network.ranges if network is not None else ()
    if limits_in("", {IP_ALLOCATION.full_name}, objects.all_not_read):
        return [
            Release(
                f"{span.namespace}/{span.allocation}",
                span.type,
                span.range,
                span.releasing or tenant.metadata.terminating,
                tuple(span.services),
            )
            for span in shown
        ]
    services = {Key(span.namespace, span.allocation): tuple(span.services) for span in shown}
    return [
        Release(
            str(allocation.metadata.key),
            allocation.spec.type,
            ", ".join(held.text for held in ranges.all_held(allocation)),
            _is_due(allocation, tenant),
            services.get(allocation.metadata.key, ()),
            _obstacle(allocation),
        )
        for allocation in sorted_by_key(objects.allocations)
        if allocation.spec.tenantClusterRef.key == tenant.metadata.key
        and not is_foreign(allocation, tenant)
        and ranges.all_held(allocation)
    ]


def _is_due(allocation: IPAllocation, tenant: TenantCluster) -> bool:
    """Return whether the release of an allocation has begun, or begins with its cluster's."""
    meta = allocation.metadata
    is_marked = meta.terminating or names.ANNOTATION_RELEASING in meta.annotations
    return is_marked or tenant.metadata.terminating


def _obstacle(allocation: IPAllocation) -> str:
    ready = find(allocation.status.conditions, READY)
    if ready is None or ready.reason != "WaitingForTenant":
        return ""
    return ready.message


def _tenant_of(kind: str, key: Key, objects: Objects) -> TenantCluster:
    """Return the cluster of the object that was named.

    Raises:
        Problem: it cannot be read, or the cluster of the allocation is gone.
    """
    if (kind, key) in objects.unreadable:
        raise Problem(f"{kind} {key} cannot be read: {objects.unreadable[kind, key]}; correct it")
    if kind == TENANT_CLUSTER.kind:
        return objects.clusters[key]
    allocation = objects.allocations[key]
    owner = allocation.spec.tenantClusterRef.key
    tenant = objects.clusters.get(owner)
    if tenant is None or is_foreign(allocation, tenant):
        raise Problem(
            f"IPAllocation {key}: its TenantCluster {owner} is gone, or may not be read. If it is"
            " gone, delete the tenant's kubeconfig Secret to release the range"
        )
    return tenant


def _preview(tenant: TenantCluster, releases: Sequence[Release]) -> str:
    state = "is being deleted" if tenant.metadata.terminating else "is not being deleted"
    head = f"TenantCluster {tenant.metadata.key}, phase {tenant.status.phase or '-'}, {state}\n"
    return head + (fitted(_COLUMNS, releases, "table") or "no IPAllocation of it holds a range\n")


def _is_confirmed(tenant_name: str) -> bool:
    """Ask on the terminal.

    Raises:
        UsageError: there is no terminal.
    """
    if not sys.stdin.isatty():
        raise click.UsageError("there is no terminal to ask on; pass --yes to go on")
    return click.confirm(f"Release the ranges of {tenant_name} without its word?", err=True)


async def _annotate(client: Any, tenant: TenantCluster) -> None:
    """Set the annotation on the cluster as it was shown.

    Raises:
        Problem: it changed meanwhile or is gone, or the user lacks a right.
        ControllerError: the request failed otherwise.
    """
    from controller.errors import Conflict, Forbidden, NotFound

    name, namespace = f"TenantCluster {tenant.metadata.key}", tenant.metadata.namespace
    change = {"metadata": {"annotations": {names.ANNOTATION_RELEASE_ANYWAY: "true"}}}
    try:
        await client.patch(TENANT_CLUSTER, Version.from_object(tenant), change)
    except Conflict as error:
        raise Problem(f"{name} changed since it was shown; run the command again") from error
    except NotFound as error:
        raise Problem(f"{name} is gone; nothing was changed") from error
    except Forbidden as error:
        lacks_release = ROLE in str(error)
        right = "the verb release on" if lacks_release else "the right to patch"
        role = ROLE if lacks_release else EDITOR_ROLE
        raise Problem(
            f"you lack {right} {name}: let an administrator bind ClusterRole {role} in namespace"
            f" {namespace}. The API server says: {error}"
        ) from error


def _result(tenant: TenantCluster, due: int) -> str:
    key = tenant.metadata.key
    ranges_are = count_noun(due, "range is", "ranges are")
    sentence = f"TenantCluster {key}: {ranges_are} released without the tenant's word"
    if tenant.metadata.terminating:
        return sentence
    removal = f"annotate tenantcluster {key.name} {names.ANNOTATION_RELEASE_ANYWAY}-"
    return (
        f"{sentence}, and further ranges when their IPAllocations are deleted. If the cluster"
        f" stays, remove the annotation afterwards:\n  kubectl -n {key.namespace} {removal}"
    )
