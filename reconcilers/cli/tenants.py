"""`butler-ipam tenants`: what every tenant holds."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import click

from allocator import AddressRange
from controller.conditions import find
from controller.meta import Key
from reconcilers import ranges
from reconcilers.api import names
from reconcilers.api.ipallocation import IPAllocation
from reconcilers.api.tenantcluster import TenantCluster
from reconcilers.cli.output import (
    STATUS_COLOURS,
    Cell,
    Column,
    Form,
    output_option,
    report,
    show,
    table,
)
from reconcilers.cli.survey.objects import (
    Objects,
    scope,
    scope_options,
    sorted_by_key,
    survey,
)
from reconcilers.tenantcluster.membership import is_foreign, role
from reconcilers.tenantcluster.status import NETWORK_READY


@dataclass(frozen=True, slots=True)
class Holding:
    """What one tenant holds.

    Args:
        tenant: the cluster.
        allocations: its own, oldest first.
    """

    tenant: TenantCluster
    allocations: tuple[IPAllocation, ...]

    def ranges(self, kind: str) -> list[AddressRange]:
        """Return the ranges of a type that it holds."""
        held = (ranges.held(one) for one in self.allocations if one.spec.type == kind)
        return [one for one in held if one is not None]

    @property
    def network(self) -> tuple[str, str]:
        """Whether its network is ready, and why."""
        condition = find(self.tenant.status.conditions, NETWORK_READY)
        return (condition.status, condition.message) if condition else ("Unknown", "-")

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


def _size(held: Sequence[AddressRange]) -> int:
    return sum(one.size for one in held)


def _texts(held: Sequence[AddressRange]) -> str:
    return ", ".join(one.text for one in held)


_COLUMNS: Sequence[Column[Holding]] = (
    Column("NAMESPACE", lambda one: one.tenant.metadata.namespace),
    Column("NAME", lambda one: one.tenant.metadata.name),
    Column("PHASE", lambda one: one.tenant.status.phase),
    Column("NODES", lambda one: _size(one.ranges(names.TYPE_NODES))),
    Column("LB", lambda one: _size(one.ranges(names.TYPE_LOADBALANCER))),
    Column("GROWN", lambda one: one.grown),
    Column("WAITING", lambda one: one.waiting),
    Column("NETWORK READY", lambda one: Cell(one.network[0], STATUS_COLOURS.get(one.network[0]))),
    Column("NODE RANGES", lambda one: _texts(one.ranges(names.TYPE_NODES)), wide=True),
    Column("LB RANGES", lambda one: _texts(one.ranges(names.TYPE_LOADBALANCER)), wide=True),
    Column("WHY", lambda one: Cell(one.network[1]), wide=True),
)


@click.command()
@scope_options
@output_option()
def tenants(output: Form, **values: Any) -> None:
    """Show what every TenantCluster holds, and whether its network is ready.

    With -n, those whose cluster is in that namespace.
    """
    where = scope(values)
    objects = survey(replace(where, namespace=""))
    found = [
        one for one in holdings(objects) if where.namespace in {"", one.tenant.metadata.namespace}
    ]
    shown = table(_COLUMNS, found, wide=output == "wide") or "no TenantClusters were found\n"
    named = (("tenantcluster", one.tenant.metadata.name) for one in found)
    show(
        output,
        lambda: report("TenantHoldingList", items=map(_item, found)),
        named,
        lambda: shown,
    )


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


def _item(one: Holding) -> dict[str, Any]:
    status, why = one.network
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
