"""`butler-ipam tenants`: what every tenant holds."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import click

from controller.conditions import find
from controller.meta import Key
from reconcilers import ranges
from reconcilers.api import names
from reconcilers.api.ipallocation import IPAllocation
from reconcilers.api.tenantcluster import TenantCluster
from reconcilers.cli.columns import Cell, number, table
from reconcilers.cli.survey.forms import (
    FORMS,
    Form,
    document,
    named,
    output_option,
    scope,
    scope_options,
)
from reconcilers.cli.survey.objects import Objects, Scope, sorted_by_key, survey
from reconcilers.tenantcluster.membership import is_foreign, role
from reconcilers.tenantcluster.status import NETWORK_READY

_COLOURS = {"True": "green", "False": "red"}


@dataclass(frozen=True, slots=True)
class Holding:
    """What one tenant holds.

    Args:
        tenant: the cluster.
        allocations: its own, oldest first.
    """

    tenant: TenantCluster
    allocations: tuple[IPAllocation, ...]

    def addresses(self, kind: str) -> int:
        """Return how many addresses of a type it holds."""
        held = (ranges.held(one) for one in self.allocations if one.spec.type == kind)
        return sum(one.size for one in held if one is not None)

    def texts(self, kind: str) -> list[str]:
        """Return the ranges of a type that it holds."""
        held = (ranges.held(one) for one in self.allocations if one.spec.type == kind)
        return [one.text for one in held if one is not None]

    @property
    def waiting(self) -> int:
        """How many of its requests hold nothing yet."""
        return sum(
            ranges.held(one) is None and not one.metadata.terminating for one in self.allocations
        )

    @property
    def grown(self) -> int:
        """How many of its ranges came by growth."""
        return sum(role(one, self.tenant) == names.ROLE_GROWTH for one in self.allocations)


@click.command()
@scope_options
@output_option(*FORMS)
def tenants(output: Form, **values: Any) -> None:
    """Show what every TenantCluster holds, and whether its network is ready.

    With -n, those whose cluster is in that namespace.
    """
    where = scope(values)
    objects = survey(Scope(where.kubeconfig, where.context, "", where.files))
    found = [
        one for one in holdings(objects) if where.namespace in {"", one.tenant.metadata.namespace}
    ]
    click.echo(_rendered(found, output), nl=False)


def holdings(objects: Objects) -> list[Holding]:
    """Return what every tenant holds, by namespace and name."""
    of_tenant: dict[Key, list[IPAllocation]] = {}
    for one in sorted_by_key(objects.allocations):
        of_tenant.setdefault(one.spec.tenantClusterRef.key, []).append(one)
    return [
        Holding(
            tenant,
            tuple(
                one
                for one in of_tenant.get(tenant.metadata.key, [])
                if not is_foreign(one, tenant)
            ),
        )
        for tenant in sorted_by_key(objects.clusters)
    ]


def _rendered(found: Sequence[Holding], form: Form) -> str:
    if form == "name":
        return named("tenantcluster", (one.tenant.metadata.name for one in found))
    if form in {"json", "yaml"}:
        return document("TenantHoldingList", map(_item, found), form)
    if not found:
        return "no TenantClusters were found\n"
    head = ["NAMESPACE", "NAME", "PHASE", "NODES", "LB", "GROWN", "WAITING", "NETWORK READY"]
    if form == "wide":
        head += ["NODE RANGES", "LB RANGES", "WHY"]
    return table(head, [_row(one, wide=form == "wide") for one in found])


def _row(one: Holding, *, wide: bool) -> list[Cell]:
    status, why = _network(one.tenant)
    cells = [
        Cell(one.tenant.metadata.namespace),
        Cell(one.tenant.metadata.name),
        Cell(one.tenant.status.phase or "-"),
        number(one.addresses(names.TYPE_NODES)),
        number(one.addresses(names.TYPE_LOADBALANCER)),
        number(one.grown),
        number(one.waiting),
        Cell(status, _COLOURS.get(status)),
    ]
    if wide:
        cells += [
            Cell(", ".join(one.texts(names.TYPE_NODES)) or "-"),
            Cell(", ".join(one.texts(names.TYPE_LOADBALANCER)) or "-"),
            Cell(why),
        ]
    return cells


def _network(tenant: TenantCluster) -> tuple[str, str]:
    condition = find(tenant.status.conditions, NETWORK_READY)
    return (condition.status, condition.message) if condition else ("Unknown", "-")


def _item(one: Holding) -> dict[str, Any]:
    status, why = _network(one.tenant)
    return {
        "namespace": one.tenant.metadata.namespace,
        "name": one.tenant.metadata.name,
        "phase": one.tenant.status.phase,
        "networkReady": status,
        "reason": why,
        "allocations": [
            {
                "name": str(allocation.metadata.key),
                "pool": str(allocation.pool_key),
                "type": allocation.spec.type,
                "role": role(allocation, one.tenant),
                "phase": allocation.status.phase,
                "range": held.text if (held := ranges.held(allocation)) is not None else None,
                "size": held.size if held is not None else 0,
            }
            for allocation in one.allocations
        ],
    }
