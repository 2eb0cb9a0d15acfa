"""`butler-ipam release`: say that a tenant is gone for good, so that its ranges are released.

The command sets the annotation `release-anyway` of a TenantCluster. From then on, ranges that wait
for the tenant are released without its confirmation. Addresses that are still in use there are
allocated again, so the command shows them first and asks.

Controllers write to the TenantCluster while a person reads. So on a conflict the command reads
again. It sets the annotation only if the *basis* is the same: the facts by which the person
decided. The command shows these facts before it asks, in a *preview*.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from controller.conditions import find_condition
from controller.meta import Key, Version
from controller.plaintext import escape_lines, escape_text
from reconcilers.addressing import statusranges
from reconcilers.addressmap.objects import Objects, read_objects, sort_by_key
from reconcilers.api import names
from reconcilers.api.ipallocation import IPAllocation
from reconcilers.api.resources import IP_ALLOCATION, TENANT_CLUSTER
from reconcilers.api.tenantcluster import TenantCluster
from reconcilers.cli import names as completed
from reconcilers.cli.cluster.objectnames import find_namespace, select_object
from reconcilers.cli.cluster.objects import (
    ReadingScope,
    read_all,
    run_in_cluster,
)
from reconcilers.cli.flags import option
from reconcilers.cli.output import GAP, Cell, TableColumn, fit_table, wrap_line
from reconcilers.cli.problems import EXIT_PROBLEM, CommandProblem, print_problem
from reconcilers.cli.sharedflags import NAMED_NAMESPACE, cluster_options, namespace_option
from reconcilers.health.explanation import find_unreadable_members
from reconcilers.networkpool.owners import read_noted_uid
from reconcilers.promises.unreadable import UnreadableObject
from reconcilers.reporting.conditions import READY
from reconcilers.reporting.wording import count_noun
from reconcilers.tenantcluster.allocations.membership import is_foreign

ROLE = "butler-ipam-release"
"""The shipped ClusterRole that grants the verb `release`."""
EDITOR_ROLE = "butler-ipam-editor"
"""The shipped ClusterRole that grants changes of TenantClusters."""

_TRIES = 5
"""How often the annotation is written, each time at the version that was read last."""

EPILOG = """
\b
Exit code:
  0  the annotation is set, or was set before
  1  nothing was changed; the message says why
  2  the options or arguments are wrong
"""


@dataclass(frozen=True, slots=True)
class Release:
    """One range of the tenant, and when it is released.

    Args:
        allocation: namespace and name of the IPAllocation that holds the range.
        type: nodes or loadbalancer.
        range: the addresses.
        is_due: whether the range is released as soon as the annotation is set.
        services: the tenant's Services that use the addresses, by the cluster's status.
        obstacle: why the release waits for the tenant, from the IPAllocation's condition Ready;
            empty if it does not wait, None if the user may not read the IPAllocation.
    """

    allocation: str
    type: str
    range: str
    is_due: bool
    services: tuple[str, ...]
    obstacle: str | None = ""

    @property
    def effect(self) -> str:
        """When the range is released: "now" or "if deleted"."""
        return "now" if self.is_due else "if deleted"


@dataclass(frozen=True, slots=True)
class Preview:
    """The ranges of a tenant, which a person reviews before they are released.

    Args:
        releases: the ranges.
        unreadable: IPAllocations that cannot be decoded and may belong to the tenant.
    """

    tenant: TenantCluster
    releases: tuple[Release, ...]
    unreadable: tuple[UnreadableObject, ...] = ()

    @classmethod
    def from_objects(cls, tenant: TenantCluster, objects: Objects) -> "Preview":
        """Return the preview of the release of a cluster.

        Args:
            objects: all objects.
        """
        unreadable = tuple(find_unreadable_members(tenant, objects))
        return cls(tenant, tuple(find_releases(tenant, objects)), unreadable)

    @property
    def name(self) -> str:
        """The cluster's kind, namespace and name."""
        return f"TenantCluster {self.tenant.metadata.key}"

    @property
    def is_annotated(self) -> bool:
        """Whether the annotation is set already."""
        return names.ANNOTATION_RELEASE_ANYWAY in self.tenant.metadata.annotations

    @property
    def basis(self) -> tuple[object, ...]:
        """The facts that a person decides by: the cluster, its deletion, and its ranges.

        Phase and conditions of the cluster are left out, because controllers write them often.
        """
        metadata = self.tenant.metadata
        return metadata.uid, metadata.is_terminating, self.releases, self.unreadable

    def as_text(self) -> str:
        """Return the preview for people."""
        state = (
            "is being deleted" if self.tenant.metadata.is_terminating else "is not being deleted"
        )
        head = wrap_line(f"{self.name}, phase {self.tenant.status.phase or '-'}, {state}", GAP)
        if not self.releases and not self.unreadable:
            return f"{head}no IPAllocation of it holds a range\n"
        unreadable = "".join(
            wrap_line(f"{member}; a range that it may hold is kept", GAP)
            for member in self.unreadable
        )
        return head + fit_table(_COLUMNS, self.releases, "table") + unreadable


def _make_obstacle_cell(release: Release) -> Cell:
    """Return the cell with the obstacle that the release of a range waits for.

    "-" stands for nothing, "unknown" for an IPAllocation that the user may not read.
    """
    if release.obstacle is None:
        return Cell("unknown")
    return Cell(release.obstacle or "-")


_COLUMNS: Sequence[TableColumn[Release]] = (
    TableColumn("ALLOCATION", lambda release: release.allocation),
    TableColumn("TYPE", lambda release: release.type, drop=2),
    TableColumn("RANGE", lambda release: release.range),
    TableColumn(
        "RELEASED", lambda release: Cell(release.effect, "red" if release.is_due else None)
    ),
    TableColumn("SERVICES", lambda release: ", ".join(release.services) or None),
    TableColumn("WAITS FOR", _make_obstacle_cell, wraps=True),
)


@click.command(epilog=EPILOG)
@click.argument(
    "name",
    metavar="[KIND/][NAMESPACE/]NAME",
    shell_complete=completed.complete_tenants_and_allocations,
)
@cluster_options
@namespace_option(NAMED_NAMESPACE)
@option(
    *("-y", "--yes"),
    is_flag=True,
    help="Release without asking first; required where there is no terminal.",
)
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
    """Release a tenant's ranges without its confirmation, because the tenant is gone for good.

    NAME is a TenantCluster, or an IPAllocation of it. The annotation release-anyway is set on the
    TenantCluster, so it counts for all of its IPAllocations that are being deleted, now or later.
    Addresses that are still in use are handed out again: switch the tenant's machines off before.
    """
    where = ReadingScope(kubeconfig, context, namespace or find_namespace(name))
    objects = read_all(where, required=(TENANT_CLUSTER,))
    kind, key = select_object(name, objects, namespace)
    preview = Preview.from_objects(_find_tenant(kind, key, objects), objects)
    click.echo(preview.as_text(), nl=False)
    if preview.is_annotated:
        sentence = f"{preview.name} has the annotation {names.ANNOTATION_RELEASE_ANYWAY} already"
        click.echo(escape_text(sentence))
        return
    if kind == IP_ALLOCATION.kind and not objects.allocations[key].metadata.is_terminating:
        print_problem(
            "note", f"IPAllocation {key} is not being deleted; its range is kept until it is"
        )
    print_problem(
        "warning",
        f"{preview.name}: addresses that are still in use are handed out again; be sure that the"
        " machines of the tenant are off",
    )
    if not yes and not _is_confirmed(preview.name):
        click.echo("nothing was changed", err=True)
        ctx.exit(EXIT_PROBLEM)
    changed = run_in_cluster(
        where, "setting the annotation", lambda client: annotate(client, preview, where.namespace)
    )
    if changed is not None:
        click.echo(changed.as_text(), nl=False)
        raise CommandProblem(
            f"{preview.name} changed since it was shown, and nothing was written; look at its"
            " ranges as they are now, above, and run the command again"
        )
    click.echo(escape_lines(_describe_result(preview)))


def find_releases(tenant: TenantCluster, objects: Objects) -> list[Release]:
    """Return the ranges of a cluster, and whether the annotation releases each at once.

    If the user may not read all IPAllocations, the ranges come from the cluster's status.

    Args:
        objects: the objects of the cluster.
    """
    network = tenant.status.network
    shown_ranges = network.ranges if network is not None else ()
    if objects.find_unread_lists(IP_ALLOCATION):
        return [
            Release(
                f"{span.namespace}/{span.allocation}",
                span.type,
                range=span.range,
                is_due=span.releasing or tenant.metadata.is_terminating,
                services=tuple(span.services),
                obstacle=None,
            )
            for span in shown_ranges
        ]
    services = {
        Key(span.namespace, span.allocation): tuple(span.services) for span in shown_ranges
    }
    return [
        Release(
            str(allocation.metadata.key),
            allocation.spec.type,
            range=", ".join(span.text for span in statusranges.list_held_ranges(allocation)),
            is_due=_is_due(allocation, tenant),
            services=services.get(allocation.metadata.key, ()),
            obstacle=_find_obstacle(allocation),
        )
        for allocation in sort_by_key(objects.allocations)
        if allocation.spec.tenantClusterRef.key == tenant.metadata.key
        and not is_foreign(allocation, tenant)
        and statusranges.list_held_ranges(allocation)
    ]


def _is_due(allocation: IPAllocation, tenant: TenantCluster) -> bool:
    """Return whether the annotation releases an allocation's range at once.

    It does if the allocation is being deleted or released, or its cluster is being deleted.
    """
    meta = allocation.metadata
    is_marked = meta.is_terminating or names.ANNOTATION_RELEASING in meta.annotations
    return is_marked or tenant.metadata.is_terminating


def _find_obstacle(allocation: IPAllocation) -> str:
    """Return the obstacle to the release of an allocation; empty if there is none.

    The controller writes the obstacle to condition Ready. An example is a load balancer that still
    announces an address of the range.
    """
    ready = find_condition(allocation.status.conditions, READY)
    if ready is None or ready.reason != "WaitingForTenant":
        return ""
    return ready.message


def _find_tenant(kind: str, key: Key, objects: Objects) -> TenantCluster:
    """Return the TenantCluster with a key, or the TenantCluster of an IPAllocation with a key.

    Raises:
        CommandProblem: the object cannot be read, or the cluster of the allocation is gone.
    """
    if (kind, key) in objects.unreadable:
        raise CommandProblem(
            f"{kind} {key} cannot be read: {objects.unreadable[kind, key]}; correct it"
        )
    if kind == TENANT_CLUSTER.kind:
        return objects.clusters[key]
    allocation = objects.allocations[key]
    owner = allocation.spec.tenantClusterRef.key
    tenant = objects.clusters.get(owner)
    if tenant is None or is_foreign(allocation, tenant):
        raise CommandProblem(_describe_missing_owner(allocation, objects))
    return tenant


def _describe_missing_owner(allocation: IPAllocation, objects: Objects) -> str:
    """Return why an allocation has no TenantCluster to annotate, and what to do about it."""
    key, owner = allocation.metadata.key, allocation.spec.tenantClusterRef.key
    reason = objects.unreadable.get((TENANT_CLUSTER.kind, owner))
    if reason is not None:
        return (
            f"IPAllocation {key}: its TenantCluster {owner} cannot be read: {reason}; correct it"
        )
    if objects.find_unread_lists(TENANT_CLUSTER, owner.namespace):
        return (
            f"IPAllocation {key}: you may not read its TenantCluster {owner}; let an administrator"
            f" bind ClusterRole {EDITOR_ROLE} in namespace {owner.namespace}"
        )
    deletion = f"kubectl -n {key.namespace} delete ipallocation {key.name}"
    if not read_noted_uid(allocation):
        return (
            f"IPAllocation {key}: TenantCluster {owner} does not exist, and no controller ever saw"
            f" it; to release the range, delete the IPAllocation: {deletion}"
        )
    first_step = (
        "" if allocation.metadata.is_terminating else f"delete the IPAllocation ({deletion}), and "
    )
    return (
        f"IPAllocation {key}: its TenantCluster {owner} is gone; {first_step}delete the tenant's"
        " kubeconfig Secret to release the range without its confirmation"
    )


def _is_confirmed(tenant_name: str) -> bool:
    """Ask on the terminal whether to release; return the answer.

    Raises:
        UsageError: there is no terminal.
    """
    if not sys.stdin.isatty():
        raise click.UsageError(
            "there is no terminal to ask for confirmation; pass --yes to continue"
        )
    return click.confirm(
        f"Release the ranges of {tenant_name} without its confirmation?", err=True
    )


async def annotate(client: Any, preview: Preview, namespace: str) -> Preview | None:
    """Set the annotation, unless the basis of the preview has changed.

    If only other fields of the cluster have changed, the write is retried at the newer version.

    Args:
        client: a client of the management cluster.
        preview: the preview that the user has confirmed.
        namespace: the namespace to read if the user may not read all namespaces.

    Returns:
        None once the annotation is set. If the basis has changed, nothing is written, and the
        current preview is returned.

    Raises:
        CommandProblem: the cluster is gone, changes too often, or the user lacks a right.
        ControllerError: a request failed for another reason.
    """
    from controller.errors import Conflict

    current = preview
    for _ in range(_TRIES):
        if current.is_annotated:
            return None
        try:
            await _write_annotation(client, current)
        except Conflict:
            current = await _read_again(client, preview, namespace)
            if current.basis != preview.basis:
                return current
        else:
            return None
    raise CommandProblem(
        f"{preview.name} was written to {_TRIES} times by other clients meanwhile, and nothing was"
        " changed; run the command again"
    )


async def _read_again(client: Any, preview: Preview, namespace: str) -> Preview:
    """Return the current preview of the cluster.

    Raises:
        CommandProblem: the cluster is gone or cannot be read.
        ControllerError: the API server did not answer.
    """
    objects = await read_objects(client, namespace, required=(TENANT_CLUSTER,))
    key = preview.tenant.metadata.key
    if (TENANT_CLUSTER.kind, key) not in objects.unreadable and key not in objects.clusters:
        raise _build_gone_problem(preview)
    return Preview.from_objects(_find_tenant(TENANT_CLUSTER.kind, key, objects), objects)


def _build_gone_problem(preview: Preview) -> CommandProblem:
    """Return the exception which reports that the cluster is gone."""
    return CommandProblem(f"{preview.name} is gone; nothing was changed")


async def _write_annotation(client: Any, preview: Preview) -> None:
    """Set the annotation on a cluster at the version that was read.

    Raises:
        Conflict: the cluster has a newer version.
        CommandProblem: the cluster is gone, or the user lacks a right.
        ControllerError: the request failed for another reason.
    """
    from controller.errors import Forbidden, NotFound

    change = {"metadata": {"annotations": {names.ANNOTATION_RELEASE_ANYWAY: "true"}}}
    try:
        await client.patch(TENANT_CLUSTER, Version.from_object(preview.tenant), change)
    except NotFound as error:
        raise _build_gone_problem(preview) from error
    except Forbidden as error:
        # Our webhook's refusal names the role; without the right to patch, RBAC refuses.
        lacks_release = ROLE in str(error)
        right = "the verb release on" if lacks_release else "the right to patch"
        role = ROLE if lacks_release else EDITOR_ROLE
        raise CommandProblem(
            f"you lack {right} {preview.name}: let an administrator bind ClusterRole {role} in"
            f" namespace {preview.tenant.metadata.namespace}. The API server says: {error}"
        ) from error


def _describe_result(preview: Preview) -> str:
    """Return sentences for the user: how many ranges are released now, and which are later.

    If the cluster is not being deleted, they also say how to remove the annotation.
    """
    key = preview.tenant.metadata.key
    due = sum(release.is_due for release in preview.releases)
    word = "without the tenant's confirmation"
    ranges_are = count_noun(due, "range is", "ranges are")
    effect = f"{ranges_are} released now {word}" if due else "no range is released now"
    if preview.tenant.metadata.is_terminating:
        return f"{preview.name}: {effect}"  # no further ranges follow
    removal = f"annotate tenantcluster {key.name} {names.ANNOTATION_RELEASE_ANYWAY}-"
    later = "further ranges follow" if due else f"ranges are released {word}"
    return (
        f"{preview.name}: {effect}; {later} when their IPAllocations are deleted."
        " If the cluster stays, remove the annotation afterwards:\n"
        f"  kubectl -n {key.namespace} {removal}"
    )
