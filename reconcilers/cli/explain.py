"""`butler-ipam explain`: why a tenant or an allocation has its ranges, or waits."""

from dataclasses import replace
from functools import partial
from typing import Any

import click

from controller.meta import Key
from reconcilers.addressmap.objects import Objects, PlatformDefault, read_objects
from reconcilers.api import names
from reconcilers.api.resources import TENANT_CLUSTER
from reconcilers.cli import names as completed
from reconcilers.cli.cluster.objectnames import find_namespace, select_object
from reconcilers.cli.cluster.objects import (
    ReadingScope,
    build_scope,
    read_all,
    read_cluster,
)
from reconcilers.cli.forms import Form
from reconcilers.cli.output import GAP, build_report, show, wrap_line
from reconcilers.cli.sharedflags import named_scope_options, output_option
from reconcilers.health.explanation import (
    Explanation,
    explain_allocation,
    explain_tenant,
    explain_unreadable,
)
from reconcilers.tenantcluster.provider import DefaultNotRead, read_platform_default


@click.command()
@click.argument(
    "name",
    metavar="[KIND/][NAMESPACE/]NAME",
    shell_complete=completed.complete_tenants_and_allocations,
)
@named_scope_options
@output_option()
def explain(name: str, output: Form, **values: Any) -> None:
    """Say why a TenantCluster or an IPAllocation has what it has, or why it waits.

    NAME is a TenantCluster or an IPAllocation. The pools are listed in the order in which they are
    tried, with what each has free. A range is compared with the free blocks of its pool that are
    large enough: the controllers choose the smallest (best fit).
    """
    where = build_scope(values)
    # A namespace in NAME is read like one in -n: the user may have rights in that namespace alone.
    read_from = replace(where, namespace=where.namespace or find_namespace(name))
    objects = _read(read_from)
    explanations = [_explain(*select_object(name, objects, where.namespace), objects)]
    show(
        output,
        lambda: build_report("ExplanationList", items=map(_build_document, explanations)),
        object_names=(
            (explanation.kind.lower(), explanation.key.name) for explanation in explanations
        ),
        as_text=lambda: "\n".join(map(_render_explanation, explanations)),
    )


def _read(where: ReadingScope) -> Objects:
    """Return the objects of a cluster or of files, with the platform's default ProviderConfig.

    Raises:
        CommandProblem: the cluster or the files cannot be read.
    """
    if where.files:
        return read_all(where)
    return read_cluster(where, partial(_read_with_default, where))


async def _read_with_default(where: ReadingScope, client: Any) -> Objects:
    """Return the objects of a cluster, with the platform's default ProviderConfig."""
    objects = await read_objects(client, where.namespace, required=(TENANT_CLUSTER,))
    return replace(objects, platform_default=await _read_default(client))


async def _read_default(client: Any) -> PlatformDefault:
    """Return the platform's default ProviderConfig, with the reason if it could not be read."""
    try:
        return PlatformDefault(await read_platform_default(client, names.DEFAULT_NAMESPACE))
    except DefaultNotRead as error:
        if error.is_forbidden:
            return PlatformDefault(
                unknown="you may not read ButlerConfig butler, which may name it"
            )
        return PlatformDefault(unknown=str(error))


def _explain(kind: str, key: Key, objects: Objects) -> Explanation:
    """Return the explanation of a TenantCluster or an IPAllocation, readable or not."""
    if (kind, key) in objects.unreadable:
        return explain_unreadable(kind, key, objects)
    if kind == TENANT_CLUSTER.kind:
        return explain_tenant(objects.clusters[key], objects)
    return explain_allocation(objects.allocations[key], objects)


def _render_explanation(explanation: Explanation) -> str:
    """Return an explanation for people: the object, and its sentences below."""
    head = wrap_line(f"{explanation.kind} {explanation.key}", GAP)
    return head + "".join(wrap_line(f"{GAP}{line}", GAP * 2) for line in explanation.lines)


def _build_document(explanation: Explanation) -> dict[str, Any]:
    """Return an explanation for programs."""
    return {
        "kind": explanation.kind,
        "namespace": explanation.key.namespace,
        "name": explanation.key.name,
        "lines": [*explanation.lines],
    }
