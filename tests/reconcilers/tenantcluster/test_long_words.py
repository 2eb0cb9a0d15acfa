"""Conditions stay below the length that an API server accepts, however long a tenant's words."""

from collections.abc import Callable

import pytest

from controller.errors import Forbidden
from tests.reconcilers import make
from tests.reconcilers.lab import Lab
from tests.reconcilers.server import Server

METALLB = "metallb-system"
LONG = "x" * 100_000
LIMIT = 32_768
"""The longest message of a condition that the CRDs allow, in characters."""


def refuse_everything(tenant: Server) -> None:
    """Refuse each request with a long message."""
    tenant.fail(Forbidden(403, "Forbidden", LONG), times=10**6)


def edit_under_a_long_name(tenant: Server) -> None:
    """Edit our pool as a field manager with a long name."""
    writers = [{"manager": LONG, "time": "2026-01-01T00:00:00Z"}]
    change = {"metadata": {"managedFields": writers}, "spec": {"autoAssign": False}}
    tenant.edit("ipaddresspools", "default-pool", change, namespace=METALLB)


def show_an_address_under_a_long_name(tenant: Server) -> None:
    """Create a Service with a long name that shows an address."""
    status = {"loadBalancer": {"ingress": [{"ip": "10.40.0.0"}]}}
    meta = {"name": LONG, "namespace": "default"}
    tenant.add("services", {"metadata": meta, "spec": {"type": "LoadBalancer"}, "status": status})


def add_an_unreadable_service(tenant: Server) -> None:
    """Create a Service with a long name that cannot be parsed."""
    meta = {"name": LONG, "namespace": "default"}
    tenant.add("services", {"metadata": meta, "spec": {"type": 5}})


HOSTILITIES = [
    refuse_everything,
    edit_under_a_long_name,
    show_an_address_under_a_long_name,
    add_an_unreadable_service,
]


@pytest.mark.parametrize(
    "hostility", HOSTILITIES, ids=lambda hostility_function: hostility_function.__name__
)
async def test_no_condition_is_longer_than_an_api_server_takes(
    hostility: Callable[[Server], None],
) -> None:
    lab = Lab()
    lab.server.add("networkpools", make.pool())
    lab.server.add("providerconfigs", make.provider("lab"))
    lab.server.add("tenantclusters", make.tenant())
    lab.server.add("ipallocations", make.allocation("team-a-lb", size=2))
    lab.server.add("ipallocations", make.allocation("team-a-lb-1", size=2))
    tenant = lab.start_tenant_server("a")
    await lab.run_until_at_rest()
    hostility(tenant)
    lab.server.delete("ipallocations", "team-a-lb")
    for _ in range(20):
        if hostility is edit_under_a_long_name:
            edit_under_a_long_name(tenant)
        await lab.run_rounds("a", 1)
    messages = [
        condition["message"]
        for plural in ("tenantclusters", "ipallocations")
        for obj in lab.server.all(plural)
        for condition in obj["status"]["conditions"]
    ]
    assert max(map(len, messages)) <= LIMIT
