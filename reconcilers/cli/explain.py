"""`butler-ipam explain`: why a tenant or an allocation has what it has, or waits."""

from collections.abc import Sequence
from typing import Any

import click

from controller.meta import Key
from reconcilers.addressmap.objects import Objects
from reconcilers.api.resources import TENANT_CLUSTER
from reconcilers.cli.cluster.objects import read_all, scope, scope_options
from reconcilers.cli.output import Form, output_option, report, show
from reconcilers.cli.problems import Problem
from reconcilers.health.explanation import (
    Explanation,
    explain_allocation,
    explain_tenant,
    explain_unreadable,
)


@click.command()
@click.argument("name", metavar="[KIND/][NAMESPACE/]NAME")
@scope_options
@output_option()
def explain(name: str, output: Form, **values: Any) -> None:
    """Say why a TenantCluster or an IPAllocation has what it has, or why it waits.

    The pools are named in the order in which they are tried, with what each has; of a range the
    free blocks are counted among which best fit chooses.
    """
    where = scope(values)
    objects = read_all(where, required=(TENANT_CLUSTER,))
    found = _select(name, objects, where.namespace)
    show(
        output,
        lambda: report("ExplanationList", items=map(_document, found)),
        ((one.kind.lower(), one.key.name) for one in found),
        lambda: "\n".join(map(_text, found)),
    )


def _select(name: str, objects: Objects, namespace: str) -> list[Explanation]:
    """Return the explanation of the object that a name selects.

    Raises:
        Problem: no object has the name, or several have.
    """
    keys = [
        *(("TenantCluster", key) for key in objects.clusters),
        *(("IPAllocation", key) for key in objects.allocations),
        *(name for name in objects.unreadable if name[0] in {"TenantCluster", "IPAllocation"}),
    ]
    matching = [
        (kind, key)
        for kind, key in keys
        if (not namespace or key.namespace == namespace) and _has_name(kind, key, name)
    ]
    if not matching:
        raise Problem(
            f"there is no TenantCluster and no IPAllocation {name!r}; `butler-ipam tenants` and"
            " `kubectl get ipallocations -A` list them"
        )
    if len(matching) > 1:
        candidates = ", ".join(f"{kind}/{key}" for kind, key in matching)
        raise Problem(f"{name!r} is ambiguous; name one of: {candidates}")
    [(kind, key)] = matching
    if (kind, key) in objects.unreadable:
        return [explain_unreadable(kind, key, objects)]
    if kind == "TenantCluster":
        return [explain_tenant(objects.clusters[key], objects)]
    return [explain_allocation(objects.allocations[key], objects)]


def _has_name(kind: str, key: Key, name: str) -> bool:
    names = {key.name, str(key)}
    prefix, _, rest = name.partition("/")
    return name in names or (prefix.lower() == kind.lower() and rest in names)


def _text(explanation: Explanation) -> str:
    lines: Sequence[str] = [f"{explanation.kind} {explanation.key}", *explanation.lines]
    return "\n  ".join(lines) + "\n"


def _document(explanation: Explanation) -> dict[str, Any]:
    return {
        "kind": explanation.kind,
        "namespace": explanation.key.namespace,
        "name": explanation.key.name,
        "lines": [*explanation.lines],
    }
