"""A tenant cannot hold its own deletion up for ever, whatever it shows or writes."""

from collections.abc import Callable
from typing import Any

import pytest

from controller.testing import WriteRecord
from reconcilers.api import names
from tests.reconcilers import make
from tests.reconcilers.lab import TENANT_KINDS, Lab
from tests.reconcilers.server import Json, Server

METALLB = "metallb-system"
GRACE = 600
Hostility = Callable[[Server], None]


async def _ready() -> tuple[Lab, Server]:
    lab = Lab()
    lab.server.add("networkpools", make.pool())
    lab.server.add("providerconfigs", make.provider("lab"))
    lab.server.add("tenantclusters", make.tenant())
    tenant = lab.tenant_server("a", (*TENANT_KINDS, "servicebgpstatuses"))
    await lab.rounds()
    return lab, tenant


def _edit(tenant: Server, change: Json) -> None:
    tenant.edit("ipaddresspools", "default-pool", change, namespace=METALLB)


def _make_annotation(basis: str | None) -> Json:
    return {"metadata": {"annotations": {names.ANNOTATION_PROJECTION_BASIS: basis}}}


def shows_an_address(tenant: Server) -> None:
    """A Service shows an address, which MetalLB does not clear."""
    status = {"loadBalancer": {"ingress": [{"ip": "10.40.0.3"}]}}
    meta = {"name": "web", "namespace": "default"}
    tenant.add("services", {"metadata": meta, "spec": {"type": "LoadBalancer"}, "status": status})


def never_reads(_: Server) -> None:
    """MetalLB does not count the marker's addresses."""


def removes_the_basis(tenant: Server) -> None:
    """Our pool is made to look like another's."""
    _edit(tenant, _make_annotation(None))


def has_a_basis_without_end(tenant: Server) -> None:
    """Our pool carries a number that Python refuses to read."""
    _edit(tenant, _make_annotation("9" * 5_000))


def has_a_basis_far_ahead(tenant: Server) -> None:
    """Our pool carries a number that no management cluster reaches."""
    _edit(tenant, _make_annotation("9" * 18))


def has_no_identity(tenant: Server) -> None:
    """Our pool comes without a uid, as no API server of Kubernetes gives it."""
    del tenant.see("ipaddresspools", "default-pool", namespace=METALLB)["metadata"]["uid"]


def puts_the_range_back(tenant: Server) -> None:
    """Whenever the pool goes, another client creates it again."""

    def hear(happening: WriteRecord) -> None:
        deleted = (happening.type, happening.plural) == ("DELETED", "ipaddresspools")
        if deleted and happening.object["metadata"]["name"] == "default-pool":
            meta = {"name": "default-pool", "namespace": METALLB}
            spec = {"addresses": ["10.40.0.0/24"]}
            tenant.add("ipaddresspools", {"metadata": meta, "spec": spec})

    tenant.listeners.append(hear)


HOSTILITIES = [
    shows_an_address,
    never_reads,
    removes_the_basis,
    has_a_basis_without_end,
    has_a_basis_far_ahead,
    has_no_identity,
    puts_the_range_back,
]


@pytest.mark.parametrize(
    "hostility", HOSTILITIES, ids=lambda hostility_function: hostility_function.__name__
)
async def test_addresses_of_an_unresponsive_tenant_are_free_after_the_teardown_grace(
    hostility: Hostility,
) -> None:
    lab, tenant = await _ready()
    hostility(tenant)
    lab.server.delete("tenantclusters", "a", namespace="team")
    await _work(lab, 20)
    assert lab.server.has("ipallocations", "team-a-lb"), "it is not given up at once"
    await lab.clock.advance(GRACE)
    await _work(lab, 5)
    assert not lab.server.has("tenantclusters", "a", namespace="team")
    assert lab.server.all("ipallocations") == []
    assert "TeardownGracePassed" in lab.recorded.reasons


async def _work(lab: Lab, rounds: int) -> None:
    """Work on everything a few times; nothing may raise."""
    lab.gate.real = lab.tenant_gate
    for _ in range(rounds):
        await lab.cluster()
        for key in sorted(allocation.metadata.key for allocation in lab.caches["ipallocations"]):
            await lab.allocations.reconcile(key)
        await lab.pool()
        await lab.clock.advance(1)


@pytest.mark.parametrize("basis", ["9" * 5_000, "9" * 18, "x", ""])
async def test_a_basis_that_a_tenant_made_up_keeps_nothing_from_it(basis: str) -> None:
    lab, tenant = await _ready()
    _edit(tenant, _make_annotation(basis) | {"spec": {"addresses": ["10.99.0.0/24"]}})
    await _work(lab, 30)
    pool = tenant.see("ipaddresspools", "default-pool", namespace=METALLB)
    assert pool["spec"]["addresses"] == ["10.40.0.0-10.40.0.7"]


@pytest.mark.parametrize("said", ["9" * 5_000 + ":1", "1:" + "f" * 99_999, ":::"])
async def test_an_annotation_that_cannot_be_parsed_counts_as_empty(said: str) -> None:
    lab, tenant = await _ready()
    tenant.served = TENANT_KINDS
    marks: dict[str, Any] = {"annotations": {names.ANNOTATION_GROWN_IN_VAIN: said}}
    lab.server.edit("tenantclusters", "a", {"metadata": marks}, namespace="team")
    elastic: Json = {"spec": {"network": {"loadBalancer": {"allocationMode": "elastic"}}}}
    lab.server.edit("providerconfigs", "default", elastic)
    await _work(lab, 2)
    assert lab.see("tenantclusters", "a", "team")["phase"] == "Ready"
