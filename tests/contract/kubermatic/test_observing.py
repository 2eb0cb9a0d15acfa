"""KKP allocates by itself; NetworkPools do not hand out its addresses and report conflicts."""

from collections.abc import AsyncIterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio

from controller.config import connect
from envtest import ControlPlane
from reconcilers.api import crd, names
from reconcilers.configuration.integrationnames import KUBERMATIC
from reconcilers.configuration.settings import KubermaticSettings
from tests.contract.conftest import administrator
from tests.contract.kubermatic.lab import Body, KubermaticLab, make_range_settings
from tests.contract.product import DATA, HOME, install_kinds, product, under_shipped_roles
from tests.contract.test_webhooks import SETTINGS, WebhookLab, read_warnings
from tests.polling import until

pytestmark = pytest.mark.asyncio(loop_scope="package")
_numbers = count()
OBSERVING = replace(
    SETTINGS, integration=(KUBERMATIC,), kubermatic=KubermaticSettings(observe=True)
)
ROOT = f"/apis/{names.API_VERSION}/namespaces/default"


@pytest_asyncio.fixture(scope="module", loop_scope="package")
async def observing_server(
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[httpx.AsyncClient]:
    """The administrator's client of a server on which the product only observes KKP.

    It is not the package's server, because the product of that one serves NetworkPools, too.
    """
    folder = tmp_path_factory.mktemp("observed")
    async with ControlPlane.start() as plane, administrator(plane) as admin:
        await plane.install_crds(crd.build_crds())
        await plane.install_crds(DATA / "kubermatic" / "crds.yaml")
        kubeconfig = await under_shipped_roles(
            plane, admin, where=folder, integration="kubermatic"
        )
        with product("kubermatic", kubeconfig, folder / "log", "--kubermatic-observe"):
            yield admin


@pytest_asyncio.fixture(loop_scope="package")
async def lab(observing_server: httpx.AsyncClient) -> KubermaticLab:
    """The objects of KKP whose names begin with a prefix of each test's own."""
    return KubermaticLab(observing_server, f"o{next(_numbers)}")


async def create_butler_object(
    lab: KubermaticLab, kind: str, plural: str, name: str, spec: dict[str, Any]
) -> None:
    """Create a NetworkPool or an IPAllocation."""
    body = {"apiVersion": names.API_VERSION, "kind": kind, "metadata": {"name": lab.name(name)}}
    await lab.create(f"{ROOT}/{plural}", {**body, "spec": spec})


async def create_served_allocation(lab: KubermaticLab, name: str, size: int) -> Body:
    """Create an IPAllocation of NetworkPool `p`, wait for its range, and return its status."""
    spec = {
        "poolRef": {"name": lab.name("p")},
        "tenantClusterRef": {"namespace": "default", "name": "missing"},
        "type": "loadbalancer",
        "count": size,
    }
    await create_butler_object(lab, "IPAllocation", plural="ipallocations", name=name, spec=spec)
    path = f"{ROOT}/ipallocations/{lab.name(name)}"
    allocation = await lab.until(
        path, lambda body: body.get("status", {}).get("phase") == "Allocated"
    )
    return dict(allocation["status"])


async def read_pool_status(lab: KubermaticLab) -> Body:
    """Return the status of NetworkPool `p`."""
    return dict((await lab.find(f"{ROOT}/networkpools/{lab.name('p')}") or {}).get("status") or {})


def get_overlap_message(status: Body) -> str:
    """Return the message of a NetworkPool's condition RangesOverlap, empty while it is False."""
    conditions = status.get("conditions", [])
    overlaps = [condition for condition in conditions if condition["type"] == "RangesOverlap"]
    return str(overlaps[0]["message"]) if overlaps and overlaps[0]["status"] == "True" else ""


async def test_networkpools_neither_hand_out_nor_count_as_available_what_kkp_allocated(
    lab: KubermaticLab,
) -> None:
    await lab.create_namespace("x")
    await lab.create_allocation(
        "x", "k", type="range", addresses=["10.9.0.0-10.9.0.3", "10.9.0.8"]
    )
    await lab.create_allocation("x", "other", type="prefix", cidr="10.9.0.16/29")
    await create_butler_object(
        lab, "NetworkPool", plural="networkpools", name="p", spec={"cidr": "10.9.0.0/27"}
    )
    allocation = await create_served_allocation(lab, "a", 4)
    assert (allocation["startAddress"], allocation["endAddress"]) == ("10.9.0.4", "10.9.0.7")
    assert (await create_served_allocation(lab, "b", 7))["startAddress"] == "10.9.0.9"
    await until(
        lambda: read_pool_status(lab), lambda status: status["availableIPs"] == 32 - 4 - 7 - 5 - 8
    )
    await lab.delete(lab.build_allocation_path("x", "other"))
    await until(
        lambda: read_pool_status(lab), lambda status: status["availableIPs"] == 32 - 4 - 7 - 5
    )
    assert (await create_served_allocation(lab, "c", 8))["startAddress"] == "10.9.0.16"


async def test_an_address_that_an_ipallocation_and_kkp_hold_is_reported_on_both_sides(
    lab: KubermaticLab,
) -> None:
    await lab.create_namespace("x")
    await create_butler_object(
        lab, "NetworkPool", plural="networkpools", name="p", spec={"cidr": "10.8.0.0/27"}
    )
    await create_served_allocation(lab, "a", 4)
    await lab.create_allocation("x", "k", type="range", addresses=["10.8.0.2-10.8.0.9"])
    allocation = f"IPAMAllocation {lab.namespace('x')}/{lab.name('k')}"
    await until(
        lambda: read_pool_status(lab), lambda status: allocation in get_overlap_message(status)
    )
    await lab.wait_for_event(
        "IPAMAllocation",
        "k",
        reason="Overlapping",
        content=f"IPAllocation default/{lab.name('a')}",
    )
    await lab.delete(lab.build_allocation_path("x", "k"))
    await until(lambda: read_pool_status(lab), lambda status: not get_overlap_message(status))


async def test_a_pool_of_kkp_and_a_networkpool_with_common_addresses_report_each_other(
    lab: KubermaticLab,
) -> None:
    await lab.create_pool("k", dc=make_range_settings("10.5.0.0/28", 4))
    await create_butler_object(
        lab, "NetworkPool", plural="networkpools", name="p", spec={"cidr": "10.5.0.8/29"}
    )

    def names_kkp(status: Body) -> bool:
        conditions = {condition["type"]: condition for condition in status.get("conditions", [])}
        message = conditions.get("Overlapping", {}).get("message", "")
        return f"IPAMPool {lab.name('k')}" in message and "(8 addresses)" in message

    await until(lambda: read_pool_status(lab), names_kkp)
    shared = f"NetworkPool default/{lab.name('p')} (8 addresses)"
    await lab.wait_for_event("IPAMPool", "k", reason="Overlapping", content=shared)


async def test_observing_writes_no_object_of_kkp(lab: KubermaticLab) -> None:
    await lab.create_cluster("a")
    await lab.create_pool("k", dc=make_range_settings("10.7.0.0/29", 4))
    await lab.create_namespace("x")
    allocation = await lab.create_allocation(
        "x", "k", type="range", addresses=["10.7.0.0-10.7.0.3"]
    )
    await create_butler_object(
        lab, "NetworkPool", plural="networkpools", name="p", spec={"cidr": "10.7.0.0/29"}
    )
    assert (await create_served_allocation(lab, "b", 4))["startAddress"] == "10.7.0.4"
    assert await lab.find(lab.build_allocation_path("a", "k")) is None
    unchanged = await lab.find(lab.build_allocation_path("x", "k"))
    assert unchanged is not None
    assert unchanged["spec"] == allocation["spec"]


async def test_an_edit_that_takes_addresses_of_kkp_out_of_a_networkpool_gets_a_warning(
    tmp_path: Path,
) -> None:
    async with ControlPlane.start() as plane, administrator(plane) as admin:
        await install_kinds(plane, "kubermatic")
        await admin.post("/api/v1/namespaces", json={"metadata": {"name": HOME}})
        transport = await connect(plane.write_kubeconfig(tmp_path / "kubeconfig"))
        webhook_lab, lab = WebhookLab(admin, transport), KubermaticLab(admin, "w")
        await lab.create_namespace("x")
        await lab.create_allocation("x", "k", type="range", addresses=["10.6.0.8-10.6.0.9"])
        holder = f"IPAMAllocation {lab.namespace('x')}/{lab.name('k')} has address 10.6.0"
        async with webhook_lab.serve_webhooks(OBSERVING):
            assert (
                await webhook_lab.create("NetworkPool", "p", {"cidr": "10.6.0.0/28"})
            ).is_success
            for change, where in (
                ({"gateway": "10.6.0.8"}, "spec.gateway"),
                ({"reserved": [{"cidr": "10.6.0.8/30"}], "gateway": None}, "spec.reserved[0]"),
            ):
                edited = await webhook_lab.edit("NetworkPool", "p", {"spec": change})
                assert any(
                    warning.startswith(f"{where}: {holder}") for warning in read_warnings(edited)
                )
            assert (await webhook_lab.delete("NetworkPool", "p")).is_success
        await transport.aclose()
