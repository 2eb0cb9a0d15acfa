"""KKP allocates by itself: NetworkPools keep clear of its addresses, and conflicts are told."""

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
from tests.contract.kubermatic.lab import Body, Lab, ranges
from tests.contract.product import DATA, HOME, install_kinds, product, under_shipped_roles
from tests.contract.test_webhooks import SETTINGS, Site, warnings
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
    """A server of its own with the product, which observes: only one serves NetworkPools."""
    folder = tmp_path_factory.mktemp("observed")
    async with ControlPlane.start() as plane, administrator(plane) as admin:
        await plane.install_crds(crd.crds())
        await plane.install_crds(DATA / "kubermatic" / "crds.yaml")
        kubeconfig = await under_shipped_roles(
            plane, admin, where=folder, integration="kubermatic"
        )
        with product("kubermatic", kubeconfig, folder / "log", "--kubermatic-observe"):
            yield admin


@pytest_asyncio.fixture(loop_scope="package")
async def lab(observing_server: httpx.AsyncClient) -> Lab:
    """Names of its own for each test."""
    return Lab(observing_server, f"o{next(_numbers)}")


async def ours(lab: Lab, kind: str, plural: str, name: str, spec: dict[str, Any]) -> None:
    """Create an object of ours."""
    body = {"apiVersion": names.API_VERSION, "kind": kind, "metadata": {"name": lab.name(name)}}
    await lab.post(f"{ROOT}/{plural}", {**body, "spec": spec})


async def ask(lab: Lab, name: str, size: int) -> Body:
    """Ask for a range of NetworkPool p, and wait for it."""
    spec = {
        "poolRef": {"name": lab.name("p")},
        "tenantClusterRef": {"namespace": "default", "name": "missing"},
        "type": "loadbalancer",
        "count": size,
    }
    await ours(lab, "IPAllocation", plural="ipallocations", name=name, spec=spec)
    path = f"{ROOT}/ipallocations/{lab.name(name)}"
    allocation = await lab.until(
        path, lambda path: path.get("status", {}).get("phase") == "Allocated"
    )
    return dict(allocation["status"])


async def pool_of(lab: Lab) -> Body:
    """Return the status of NetworkPool p."""
    return dict((await lab.find(f"{ROOT}/networkpools/{lab.name('p')}") or {}).get("status") or {})


def overlap_of(status: Body) -> str:
    """Return the message of a NetworkPool's condition RangesOverlap, empty while it is False."""
    conditions = status.get("conditions", [])
    overlaps = [condition for condition in conditions if condition["type"] == "RangesOverlap"]
    return str(overlaps[0]["message"]) if overlaps and overlaps[0]["status"] == "True" else ""


async def test_networkpools_keep_clear_of_what_kkp_allocates_and_count_it(
    lab: Lab,
) -> None:
    await lab.post_namespace("x")
    await lab.allocate("x", "k", type="range", addresses=["10.9.0.0-10.9.0.3", "10.9.0.8"])
    await lab.allocate("x", "other", type="prefix", cidr="10.9.0.16/29")
    await ours(lab, "NetworkPool", plural="networkpools", name="p", spec={"cidr": "10.9.0.0/27"})
    allocation = await ask(lab, "a", 4)
    assert (allocation["startAddress"], allocation["endAddress"]) == ("10.9.0.4", "10.9.0.7")
    assert (await ask(lab, "b", 7))["startAddress"] == "10.9.0.9"
    await until(
        lambda: pool_of(lab), lambda pool_of: pool_of["availableIPs"] == 32 - 4 - 7 - 5 - 8
    )
    await lab.delete(lab.allocation("x", "other"))
    await until(lambda: pool_of(lab), lambda pool_of: pool_of["availableIPs"] == 32 - 4 - 7 - 5)
    assert (await ask(lab, "c", 8))["startAddress"] == "10.9.0.16"


async def test_an_address_that_both_hold_is_reported_on_both(lab: Lab) -> None:
    await lab.post_namespace("x")
    await ours(lab, "NetworkPool", plural="networkpools", name="p", spec={"cidr": "10.8.0.0/27"})
    await ask(lab, "a", 4)
    await lab.allocate("x", "k", type="range", addresses=["10.8.0.2-10.8.0.9"])
    told = f"IPAMAllocation {lab.namespace('x')}/{lab.name('k')}"
    await until(lambda: pool_of(lab), lambda pool_of: told in overlap_of(pool_of))
    await lab.until_event(
        "IPAMAllocation",
        "k",
        reason="Overlapping",
        content=f"IPAllocation default/{lab.name('a')}",
    )
    await lab.delete(lab.allocation("x", "k"))
    await until(lambda: pool_of(lab), lambda pool_of: not overlap_of(pool_of))


async def test_pools_of_kkp_that_share_addresses_with_a_networkpool_are_reported_on_both(
    lab: Lab,
) -> None:
    await lab.pool("k", dc=ranges("10.5.0.0/28", 4))
    await ours(lab, "NetworkPool", plural="networkpools", name="p", spec={"cidr": "10.5.0.8/29"})

    def names_kkp(status: Body) -> bool:
        conditions = {condition["type"]: condition for condition in status.get("conditions", [])}
        message = conditions.get("Overlapping", {}).get("message", "")
        return f"IPAMPool {lab.name('k')}" in message and "(8 addresses)" in message

    await until(lambda: pool_of(lab), names_kkp)
    shared = f"NetworkPool default/{lab.name('p')} (8 addresses)"
    await lab.until_event("IPAMPool", "k", reason="Overlapping", content=shared)


async def test_nothing_of_kkp_is_written_by_who_observes(lab: Lab) -> None:
    await lab.cluster("a")
    await lab.pool("k", dc=ranges("10.7.0.0/29", 4))
    await lab.post_namespace("x")
    allocation = await lab.allocate("x", "k", type="range", addresses=["10.7.0.0-10.7.0.3"])
    await ours(lab, "NetworkPool", plural="networkpools", name="p", spec={"cidr": "10.7.0.0/29"})
    assert (await ask(lab, "b", 4))["startAddress"] == "10.7.0.4"
    assert await lab.find(lab.allocation("a", "k")) is None
    kept = await lab.find(lab.allocation("x", "k"))
    assert kept is not None
    assert kept["spec"] == allocation["spec"]


async def test_a_networkpool_may_leave_out_what_kkp_allocated_with_a_warning(
    tmp_path: Path,
) -> None:
    async with ControlPlane.start() as plane, administrator(plane) as admin:
        await install_kinds(plane, "kubermatic")
        await admin.post("/api/v1/namespaces", json={"metadata": {"name": HOME}})
        transport = await connect(plane.write_kubeconfig(tmp_path / "kubeconfig"))
        site, lab = Site(admin, transport), Lab(admin, "w")
        await lab.post_namespace("x")
        await lab.allocate("x", "k", type="range", addresses=["10.6.0.8-10.6.0.9"])
        holder = f"IPAMAllocation {lab.namespace('x')}/{lab.name('k')} has address 10.6.0"
        async with site.serve_webhooks(OBSERVING):
            assert (await site.create("NetworkPool", "p", {"cidr": "10.6.0.0/28"})).is_success
            for change, where in (
                ({"gateway": "10.6.0.8"}, "spec.gateway"),
                ({"reserved": [{"cidr": "10.6.0.8/30"}], "gateway": None}, "spec.reserved[0]"),
            ):
                edited = await site.edit("NetworkPool", "p", {"spec": change})
                assert any(
                    warning.startswith(f"{where}: {holder}") for warning in warnings(edited)
                )
            assert (await site.delete("NetworkPool", "p")).is_success
        await transport.aclose()
