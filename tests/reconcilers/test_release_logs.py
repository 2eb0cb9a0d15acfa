"""Each log line about a range that is given back has the range, the tenant and the reason."""

import ast
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

import reconcilers
from controller.resource import Resource
from reconcilers.configuration.integrationnames import KUBERMATIC, VITISTACK
from reconcilers.configuration.settings import Settings, VitistackSettings
from reconcilers.integrations.clusterapi.api import PAUSED
from reconcilers.integrations.kubermatic.api import ALLOCATIONS, CLUSTERS, KINDS, POOLS
from reconcilers.integrations.metal3 import api as metal3
from reconcilers.integrations.vitistack import api as vitistack
from tests.reconcilers import make
from tests.reconcilers.balancer import Balancer
from tests.reconcilers.integrations.clusterapi.test_unreadable import (
    ADDRESSES,
    CLAIMS,
    SERVED,
    WITH_CLAIMS,
    create_claim,
    create_ip_pool,
    read_address,
)
from tests.reconcilers.integrations.clusterapi.test_unreadable import (
    POOLS as CLAIM_POOLS,
)
from tests.reconcilers.integrations.metal3.test_forced_removal import ADDRESSES_OF, serve_claims
from tests.reconcilers.integrations.unreadable import PlatformCluster, open_platform_cluster
from tests.reconcilers.networkpool.test_orphans import make_lab, make_orphan
from tests.reconcilers.tenantcluster.elastic.site import (
    make_elastic_platform,
    make_ready_with_services,
)
from tests.reconcilers.test_sharing import NAMESPACE

FIELDS = {"holder", "allocation", "range", "pool", "tenant", "reason"}
ROOT = Path(reconcilers.__file__).parent


def _about(lines: list[Any], *texts: str) -> dict[str, dict[str, Any]]:
    return {line["event"]: line for line in lines if line["event"] in texts}


async def test_a_range_that_shrinks_and_the_teardown_of_its_cluster_are_logged_in_full() -> None:
    platform, tenant = make_elastic_platform()
    Balancer(tenant)
    texts = (
        "elastic IPAM: shrinking unused allocation",
        "elastic IPAM: deleting the unused allocation",
        "deleting IPAllocation during cleanup",
        "releasing IPAllocation",
    )
    with capture_logs() as lines:
        async with platform.running():
            await make_ready_with_services(platform, tenant, "one", "two", "three")
            tenant.vanish("services", "three", namespace="default")
            await platform.clock.advance(700)
            for name in ("one", "two"):
                tenant.vanish("services", name, namespace="default")
            platform.server.delete("tenantclusters", "a", namespace="team")
            await platform.clock.advance(60)
    release_lines = _about(lines, *texts)
    assert set(release_lines) == set(texts)
    for line in release_lines.values():
        assert line.keys() >= FIELDS
        assert line["tenant"] == "team/a"
        assert line["range"].startswith("10.40.0.")


async def test_a_collected_orphan_is_logged_in_full() -> None:
    lab = make_lab(make_orphan())
    with capture_logs() as lines:
        await lab.orphans.sweep()
    [line] = _about(lines, "garbage collecting orphaned IPAllocation").values()
    assert {name: line[name] for name in FIELDS} == {
        "holder": "IPAllocation butler-system/lb",
        "allocation": "butler-system/lb",
        "range": "10.40.0.0/32",
        "pool": "butler-system/lab",
        "tenant": "team/a",
        "reason": "its TenantCluster is gone",
    }


async def test_an_allocation_that_was_deleted_by_hand_is_logged_in_full() -> None:
    lab = make_lab(
        make_orphan(finalizers=["butler.butlerlabs.dev/ipallocation"]), owner=make.tenant()
    )
    lab.server.delete("ipallocations", "lb")
    with capture_logs() as lines:
        await lab.run_allocation_pass("lb")
    [line] = _about(lines, "releasing IPAllocation").values()
    assert line.keys() >= FIELDS
    assert line["reason"] == "no Service has it"


async def test_an_allocation_whose_finalizer_a_person_removed_is_logged_once() -> None:
    platform, tenant = make_elastic_platform()
    Balancer(tenant)
    with capture_logs() as lines:
        async with platform.running():
            await make_ready_with_services(platform, tenant, "one")
            server = platform.server
            [name] = [
                allocation["metadata"]["name"]
                for allocation in server.all("ipallocations")
                if allocation["spec"]["type"] == "loadbalancer"
            ]
            start_address = server.see("ipallocations", name)["status"]["startAddress"]
            server.vanish("ipallocations", name)
            await platform.clock.advance(5)
            server.delete("tenantclusters", "a", namespace="team")
            await platform.clock.advance(60)
            assert not server.all("ipallocations")
    [line] = [line for line in lines if line["event"] == "released IPAllocation"]
    assert line.keys() >= FIELDS
    assert line["allocation"] == f"butler-system/{name}"
    assert line["range"].startswith(start_address)
    assert line["reason"] == "it is gone, and its tenant was not asked"


@asynccontextmanager
async def _kkp_cluster_with_addresses() -> AsyncIterator[PlatformCluster]:
    """KKP's IPAMPool p, and the allocation in it of cluster a."""
    datacenter = {"type": "range", "poolCidr": "10.0.0.0/28", "allocationRange": 2}
    async with open_platform_cluster(Settings(integration=(KUBERMATIC,)), *KINDS) as cluster:
        await cluster.create_object(POOLS, "p", {"datacenters": {"dc": datacenter}})
        status = {"namespaceName": "cluster-a"}
        await cluster.create_object(CLUSTERS, "a", {"cloud": {"dc": "dc"}}, status=status)
        await cluster.pass_by(5)
        yield cluster


async def test_an_ipamallocation_that_comes_and_goes_between_two_passes_is_logged_once() -> None:
    async with _kkp_cluster_with_addresses() as cluster:
        with capture_logs() as lines:
            for address in ("10.0.0.8", "10.0.0.9"):
                await cluster.remove_by_force(ALLOCATIONS, "p", "cluster-a")
                spec = {"dc": "dc", "type": "range", "addresses": [f"{address}-{address}"]}
                await cluster.create_object(ALLOCATIONS, "p", spec, namespace="cluster-a")
            await cluster.remove_by_force(ALLOCATIONS, "p", "cluster-a")
            await cluster.pass_by(5)
    released = [line for line in lines if line["event"] == "released IPAMAllocation"]
    assert [(line["range"], line["reason"]) for line in released] == [
        ("10.0.0.0-10.0.0.1", "it is gone"),
        ("10.0.0.8-10.0.0.8", "it is gone"),
        ("10.0.0.9-10.0.0.9", "it is gone"),
    ]


async def test_an_ipamallocation_that_becomes_unreadable_is_not_logged_as_released() -> None:
    async with _kkp_cluster_with_addresses() as cluster:
        with capture_logs() as lines:
            await cluster.edit(
                ALLOCATIONS, "p", patch={"spec": {"type": 7}}, namespace="cluster-a"
            )
            await cluster.pass_by(5)
    assert not [line for line in lines if line["event"] == "released IPAMAllocation"]


@asynccontextmanager
async def _machine_with_address(*, provider: str = "us") -> AsyncIterator[PlatformCluster]:
    """Network p of vitistack with a provider, and IPAllocation a in it with 10.0.0.9."""
    settings = Settings(integration=(VITISTACK,), vitistack=VitistackSettings(provider="us"))
    async with open_platform_cluster(settings, *vitistack.KINDS) as cluster:
        static = {"ipv4CIDR": "10.0.0.0/28", "ipv4Gateway": "10.0.0.1", "ttlSeconds": 86400}
        spec = {"ipAllocation": {"type": "static", "provider": provider, "static": static}}
        ready = {"provisioningPhase": "Ready"}
        await cluster.create_object(vitistack.NETWORKS, "p", spec, status=ready)
        request = {"networkNamespaceName": "p", "networkConfigurationName": "no-a"}
        status = {"phase": "Allocated", "address": "10.0.0.9"}
        await cluster.create_object(vitistack.ALLOCATIONS, "a", request, status=status)
        await cluster.pass_by(5)
        yield cluster


def _released_by_vitistack(lines: list[Any]) -> list[Any]:
    return [line for line in lines if line["event"] == "released IPAllocation of vitistack"]


async def test_an_ipallocation_of_vitistack_that_a_person_deletes_is_logged_in_full() -> None:
    async with _machine_with_address() as cluster:
        with capture_logs() as lines:
            await cluster.delete(vitistack.ALLOCATIONS, "a")
            await cluster.pass_by(5)
    [line] = _released_by_vitistack(lines)
    namespace = line["pool"].partition(" ")[2].partition("/")[0]
    assert {name: line[name] for name in ("holder", "range", "pool", "reason")} == {
        "holder": f"ipallocations.vitistack.io {namespace}/a",
        "range": "10.0.0.9",
        "pool": f"NetworkNamespace {namespace}/p",
        "reason": "it is gone",
    }


async def test_an_ipallocation_of_vitistack_that_was_released_before_has_no_second_line() -> None:
    async with _machine_with_address() as cluster:
        with capture_logs() as lines:
            released = {"status": {"phase": "Released", "address": None}}
            await cluster.edit(vitistack.ALLOCATIONS, "a", released)
            await cluster.delete(vitistack.ALLOCATIONS, "a")
            await cluster.pass_by(5)
    assert _released_by_vitistack(lines) == []


async def test_an_ipallocation_of_another_provider_of_vitistack_is_not_logged() -> None:
    async with _machine_with_address(provider="them") as cluster:
        with capture_logs() as lines:
            await cluster.delete(vitistack.ALLOCATIONS, "a")
            await cluster.pass_by(5)
    assert _released_by_vitistack(lines) == []


@asynccontextmanager
async def _claim_with_address() -> AsyncIterator[PlatformCluster]:
    """Pool p of Cluster API, and claim a, which has 10.0.0.10."""
    async with open_platform_cluster(WITH_CLAIMS, *SERVED) as cluster:
        await create_ip_pool(cluster, "p", 0)
        await create_claim(cluster, "a", "p")
        await cluster.pass_by(5)
        assert read_address(cluster, "a") == "10.0.0.10"
        yield cluster


def _released_to_claims(lines: list[Any]) -> list[tuple[str, str, str]]:
    events = ("releasing IPAddress", "released IPAddress", "released IPAddressClaim")
    event_lines = [line for line in lines if line["event"] in events]
    return [(line["event"], line["range"], line["reason"]) for line in event_lines]


@pytest.mark.parametrize(
    ("kinds", "event"),
    [
        ((ADDRESSES, CLAIMS), "released IPAddressClaim"),
        ((CLAIMS, ADDRESSES), "released IPAddress"),
    ],
    ids=["the claim last", "the IPAddress last"],
)
async def test_an_address_whose_objects_a_person_removes_by_force_is_logged_once(
    kinds: tuple[Resource[Any], Resource[Any]], event: str
) -> None:
    async with _claim_with_address() as cluster:
        paused = {"metadata": {"annotations": {PAUSED: ""}}}
        await cluster.edit(CLAIM_POOLS, "p", paused)  # so the IPAddress is not made again
        with capture_logs() as lines:
            for kind in kinds:
                await cluster.remove_by_force(kind, "a")
            await cluster.pass_by(90)
            assert not cluster.get_stored(ADDRESSES, "a")
    assert _released_to_claims(lines) == [(event, "10.0.0.10/24", "it is gone")]


async def test_the_release_of_a_deleted_claim_is_logged_once() -> None:
    async with _claim_with_address() as cluster:
        with capture_logs() as lines:
            await cluster.delete(CLAIMS, "a")
            await cluster.pass_by(90)
            assert not cluster.get_stored(ADDRESSES, "a")
    released = [("releasing IPAddress", "10.0.0.10/24", "its claim is deleted")]
    assert _released_to_claims(lines) == released


async def test_an_ipaddress_that_comes_back_for_its_claim_is_not_logged_as_released() -> None:
    async with _claim_with_address() as cluster:
        with capture_logs() as lines:
            await cluster.remove_by_force(ADDRESSES, "a")
            await cluster.pass_by(30)
            assert read_address(cluster, "a") == "10.0.0.10"
    assert _released_to_claims(lines) == []


def _released_by_metal3(lines: list[Any], kind: str) -> list[tuple[str, ...]]:
    events = ("releasing IPAddress", "released IPAddress", f"released {kind}")
    fields = ("event", "holder", "range", "pool", "reason")
    return [tuple(line[field] for field in fields) for line in lines if line["event"] in events]


@pytest.mark.parametrize("kind", ADDRESSES_OF)
@pytest.mark.parametrize("is_claim_last", [True, False], ids=["the claim last", "the claim first"])
async def test_an_address_of_an_ippool_whose_objects_a_person_removes_by_force_is_logged_once(
    kind: str, *, is_claim_last: bool
) -> None:
    async with serve_claims(kind) as claims:
        await claims.create("a")
        assert claims.find_address("a") == "10.0.0.1"
        cluster = claims.cluster
        paused = {"metadata": {"annotations": {PAUSED: ""}}}
        await cluster.edit(metal3.POOLS, "p", paused)  # so the IPAddress is not made again
        objects = [(claims.address_kind, "p-10-0-0-1"), (claims.claim_kind, "a")]
        with capture_logs() as lines:
            for resource, name in objects if is_claim_last else reversed(objects):
                await cluster.remove_by_force(resource, name)
            await cluster.edit(metal3.POOLS, "p", {"metadata": {"annotations": {PAUSED: None}}})
            await cluster.pass_by(90)
            await claims.create("b")
            assert claims.find_address("b") == "10.0.0.1"
    event = f"released {kind if is_claim_last else 'IPAddress'}"
    pool, holder = f"IPPool {NAMESPACE}/p", f"{kind} {NAMESPACE}/a"
    assert _released_by_metal3(lines, kind) == [(event, holder, "10.0.0.1", pool, "it is gone")]


@pytest.mark.parametrize("kind", ADDRESSES_OF)
async def test_the_release_of_a_deleted_claim_of_an_ippool_is_logged_once(kind: str) -> None:
    async with serve_claims(kind) as claims:
        await claims.create("a")
        with capture_logs() as lines:
            await claims.cluster.delete(claims.claim_kind, "a")
            await claims.cluster.pass_by(90)
            assert not claims.cluster.get_stored(claims.claim_kind, "a")
    [line] = _released_by_metal3(lines, kind)
    assert (line[0], line[-1]) == ("releasing IPAddress", "its claim is deleted")


@pytest.mark.parametrize("kind", ADDRESSES_OF)
async def test_an_ipaddress_of_an_ippool_that_comes_back_is_not_logged_as_released(
    kind: str,
) -> None:
    async with serve_claims(kind) as claims:
        await claims.create("a")
        with capture_logs() as lines:
            await claims.cluster.remove_by_force(claims.address_kind, "p-10-0-0-1")
            await claims.cluster.pass_by(30)
            assert claims.find_address("a") == "10.0.0.1"
    assert _released_by_metal3(lines, kind) == []


DELETIONS = (
    ".delete(IP_ALLOCATION,",
    ".delete(ALLOCATIONS,",
    "delete_with_finalizer(self._client,",
    "self._objects.remove(",
    "self._objects_of(side).remove(",
    "ALLOCATIONS, allocation, build_released_status(",
)
"""How a function deletes or releases an object that holds addresses."""
LOGGED = ("release_fields(", "build_holder_fields(", "_log_release(", "release(self._client")
"""What a function calls that logs the fields of a release."""


def _deletions() -> Iterator[tuple[str, bool]]:
    """Yield each function that deletes or releases holders, and whether it logs all fields."""
    for path in [*ROOT.rglob("*.py")]:
        if "cli" in path.parts:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.AsyncFunctionDef):
                source = ast.unparse(node)
                if any(deletion in source for deletion in DELETIONS):
                    yield f"{path.stem}.{node.name}", any(name in source for name in LOGGED)


def test_whatever_deletes_a_holder_of_addresses_logs_all_fields() -> None:
    deletions = dict(_deletions())
    expected = {
        "answers.remove",
        "addressobjects.remove",
        "addresswrites.remove",
        "allocations.delete",
        "configurations._delete_unused",
        "writing.release",
    }
    assert expected <= set(deletions)
    assert len(deletions) >= 12
    assert [name for name, is_logged in deletions.items() if not is_logged] == []
