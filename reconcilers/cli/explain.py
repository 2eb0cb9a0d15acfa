"""`butler-ipam explain`: why a tenant or an allocation has what it has, or waits."""

from dataclasses import replace
from typing import Any

import click

from controller.meta import Key
from reconcilers.addressmap.objects import Objects
from reconcilers.api.resources import TENANT_CLUSTER
from reconcilers.cli import names as completed
from reconcilers.cli.cluster.objectnames import namespace_in, select_object
from reconcilers.cli.cluster.objects import named_scope_options, read_all, scope
from reconcilers.cli.output import GAP, Form, output_option, report, show, wrapped
from reconcilers.health.explanation import (
    Explanation,
    explain_allocation,
    explain_tenant,
    explain_unreadable,
)


@click.command()
@click.argument(
    "name", metavar="[KIND/][NAMESPACE/]NAME", shell_complete=completed.tenants_and_allocations
)
@named_scope_options
@output_option()
def explain(name: str, output: Form, **values: Any) -> None:
    """Say why a TenantCluster or an IPAllocation has what it has, or why it waits.

    The pools are named in the order in which they are tried, with what each has; of a range the
    free blocks are counted among which best fit chooses.
    """
    where = scope(values)
    read_from = replace(where, namespace=where.namespace or namespace_in(name))
    objects = read_all(read_from, required=(TENANT_CLUSTER,))
    found = [_explain(*select_object(name, objects, where.namespace), objects)]
    show(
        output,
        lambda: report("ExplanationList", items=map(_document, found)),
        ((one.kind.lower(), one.key.name) for one in found),
        lambda: "\n".join(map(_text, found)),
    )


def _explain(kind: str, key: Key, objects: Objects) -> Explanation:
    if (kind, key) in objects.unreadable:
        return explain_unreadable(kind, key, objects)
    if kind == TENANT_CLUSTER.kind:
        return explain_tenant(objects.clusters[key], objects)
    return explain_allocation(objects.allocations[key], objects)


def _text(explanation: Explanation) -> str:
    head = wrapped(f"{explanation.kind} {explanation.key}", GAP)
    return head + "".join(wrapped(f"{GAP}{line}", GAP * 2) for line in explanation.lines)


def _document(explanation: Explanation) -> dict[str, Any]:
    return {
        "kind": explanation.kind,
        "namespace": explanation.key.namespace,
        "name": explanation.key.name,
        "lines": [*explanation.lines],
    }
