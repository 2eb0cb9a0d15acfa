"""What a tenant says may have any length; what is written of it in conditions has a limit."""

from collections.abc import Callable

import pytest

from controller.errors import Forbidden
from tests.reconcilers import make
from tests.reconcilers.lab import Lab
from tests.reconcilers.server import Server

METALLB = "metallb-system"
LONG = "x" * 100_000
LIMIT = 32_768
"""The most that an API server takes, by the CRDs."""


def refuses_everything(tenant: Server) -> None:
    """Each request is refused at length."""
    tenant.fail(Forbidden(403, "Forbidden", LONG), times=10**6)


def insists_under_a_long_name(tenant: Server) -> None:
    """Our pool was edited by a manager with a long name, over and over."""
    writers = [{"manager": LONG, "time": "2026-01-01T00:00:00Z"}]
    change = {"metadata": {"managedFields": writers}, "spec": {"autoAssign": False}}
    tenant.edit("ipaddresspools", "default-pool", change, namespace=METALLB)


def shows_an_address_in_a_long_name(tenant: Server) -> None:
    """A Service with a long name shows an address."""
    status = {"loadBalancer": {"ingress": [{"ip": "10.40.0.0"}]}}
    meta = {"name": LONG, "namespace": "default"}
    tenant.add("services", {"metadata": meta, "spec": {"type": "LoadBalancer"}, "status": status})


def has_what_cannot_be_read(tenant: Server) -> None:
    """A Service with a long name is none."""
    meta = {"name": LONG, "namespace": "default"}
    tenant.add("services", {"metadata": meta, "spec": {"type": 5}})


HOSTILITIES = [
    refuses_everything,
    insists_under_a_long_name,
    shows_an_address_in_a_long_name,
    has_what_cannot_be_read,
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
    tenant = lab.tenant_server("a")
    await lab.rounds()
    hostility(tenant)
    lab.server.delete("ipallocations", "team-a-lb")
    for _ in range(20):
        if hostility is insists_under_a_long_name:
            insists_under_a_long_name(tenant)
        await lab.rounds_of("a", 1)
    messages = [
        condition["message"]
        for plural in ("tenantclusters", "ipallocations")
        for obj in lab.server.all(plural)
        for condition in obj["status"]["conditions"]
    ]
    assert max(map(len, messages)) <= LIMIT
