"""A tenant cannot delay its own deletion for ever, whatever its API server shows."""

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
"""Seconds of the teardown grace."""
Hostility = Callable[[Server], None]


async def _make_ready_lab() -> tuple[Lab, Server]:
    """Return a lab whose cluster has its range in its tenant, and the tenant's API server.

    A MetalLB that counts addresses is installed there, but nothing plays it.
    """
    lab = Lab()
    lab.server.add("networkpools", make.pool())
    lab.server.add("providerconfigs", make.provider("lab"))
    lab.server.add("tenantclusters", make.tenant())
    tenant = lab.start_tenant_server("a", (*TENANT_KINDS, "servicebgpstatuses"))
    await lab.run_until_at_rest()
    return lab, tenant


def _edit_pool(tenant: Server, change: Json) -> None:
    """Patch our IPAddressPool in the tenant."""
    tenant.edit("ipaddresspools", "default-pool", change, namespace=METALLB)


def _make_annotation(basis: str | None) -> Json:
    return {"metadata": {"annotations": {names.ANNOTATION_PROJECTION_BASIS: basis}}}


def show_an_address(tenant: Server) -> None:
    """Have a Service show an address of the range; nothing clears it."""
    status = {"loadBalancer": {"ingress": [{"ip": "10.40.0.3"}]}}
    meta = {"name": "web", "namespace": "default"}
    tenant.add("services", {"metadata": meta, "spec": {"type": "LoadBalancer"}, "status": status})


def keep_the_marker_uncounted(_: Server) -> None:
    """Change nothing: no MetalLB counts the addresses of the marker pool."""


def remove_the_basis(tenant: Server) -> None:
    """Remove the annotation by which our pool is known to be ours."""
    _edit_pool(tenant, _make_annotation(None))


def write_an_endless_basis(tenant: Server) -> None:
    """Write a basis of more digits than Python parses."""
    _edit_pool(tenant, _make_annotation("9" * 5_000))


def write_a_far_basis(tenant: Server) -> None:
    """Write a basis above every revision of the management cluster."""
    _edit_pool(tenant, _make_annotation("9" * 18))


def remove_the_uid(tenant: Server) -> None:
    """Remove the uid of our pool, which no real API server does."""
    del tenant.see("ipaddresspools", "default-pool", namespace=METALLB)["metadata"]["uid"]


def recreate_a_deleted_pool(tenant: Server) -> None:
    """Have another client create our pool again whenever it is deleted."""

    def recreate(happening: WriteRecord) -> None:
        deleted = (happening.type, happening.plural) == ("DELETED", "ipaddresspools")
        if deleted and happening.object["metadata"]["name"] == "default-pool":
            meta = {"name": "default-pool", "namespace": METALLB}
            spec = {"addresses": ["10.40.0.0/24"]}
            tenant.add("ipaddresspools", {"metadata": meta, "spec": spec})

    tenant.listeners.append(recreate)


HOSTILITIES = [
    show_an_address,
    keep_the_marker_uncounted,
    remove_the_basis,
    write_an_endless_basis,
    write_a_far_basis,
    remove_the_uid,
    recreate_a_deleted_pool,
]


@pytest.mark.parametrize(
    "hostility", HOSTILITIES, ids=lambda hostility_function: hostility_function.__name__
)
async def test_addresses_of_an_unresponsive_tenant_are_free_after_the_teardown_grace(
    hostility: Hostility,
) -> None:
    lab, tenant = await _make_ready_lab()
    hostility(tenant)
    lab.server.delete("tenantclusters", "a", namespace="team")
    await _run_passes(lab, 20)
    assert lab.server.has("ipallocations", "team-a-lb"), "it is not given up at once"
    await lab.clock.advance(GRACE)
    await _run_passes(lab, 5)
    assert not lab.server.has("tenantclusters", "a", namespace="team")
    assert lab.server.all("ipallocations") == []
    assert "TeardownGracePassed" in lab.recorded.reasons


async def _run_passes(lab: Lab, rounds: int) -> None:
    """Run passes over the cluster, its allocations and the pool once a second; none may raise."""
    lab.use_real_release_check()
    for _ in range(rounds):
        await lab.run_cluster_pass()
        for key in sorted(allocation.metadata.key for allocation in lab.caches["ipallocations"]):
            await lab.allocations.reconcile(key)
        await lab.run_pool_pass()
        await lab.clock.advance(1)


@pytest.mark.parametrize("basis", ["9" * 5_000, "9" * 18, "x", ""])
async def test_an_edited_pool_with_an_invalid_basis_is_corrected(basis: str) -> None:
    lab, tenant = await _make_ready_lab()
    _edit_pool(tenant, _make_annotation(basis) | {"spec": {"addresses": ["10.99.0.0/24"]}})
    await _run_passes(lab, 30)
    pool = tenant.see("ipaddresspools", "default-pool", namespace=METALLB)
    assert pool["spec"]["addresses"] == ["10.40.0.0-10.40.0.7"]


@pytest.mark.parametrize("annotation", ["9" * 5_000 + ":1", "1:" + "f" * 99_999, ":::"])
async def test_an_annotation_that_cannot_be_parsed_counts_as_empty(annotation: str) -> None:
    lab, tenant = await _make_ready_lab()
    tenant.served = TENANT_KINDS
    marks: dict[str, Any] = {"annotations": {names.ANNOTATION_GROWN_IN_VAIN: annotation}}
    lab.server.edit("tenantclusters", "a", {"metadata": marks}, namespace="team")
    elastic: Json = {"spec": {"network": {"loadBalancer": {"allocationMode": "elastic"}}}}
    lab.server.edit("providerconfigs", "default", elastic)
    await _run_passes(lab, 2)
    assert lab.read_status("tenantclusters", "a", "team")["phase"] == "Ready"
