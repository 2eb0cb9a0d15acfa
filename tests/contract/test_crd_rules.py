"""What the API server refuses by the CRDs alone, so that a cluster without webhooks is safe."""

import copy
from collections.abc import Mapping
from typing import Any

import anyio
import httpx
import pytest
import yaml

from envtest.plane import ControlPlane as Plane
from manifests import folder
from reconcilers.api import crd, names

HOME = "default"
PLURALS = {kind.kind: kind.plural for kind in crd.KINDS}
IN_FORCE = 20.0
Json = dict[str, Any]


class Shelf:
    """Our kinds on a server, as people write them."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http

    def _path(self, kind: str, *rest: str, namespace: str = HOME) -> str:
        base = f"/apis/{names.API_VERSION}/namespaces/{namespace}/{PLURALS[kind]}"
        return "/".join([base, *rest])

    async def create(self, kind: str, spec: Json, name: str = "x") -> httpx.Response:
        body = {
            "apiVersion": names.API_VERSION,
            "kind": kind,
            "metadata": {"name": name},
            "spec": spec,
        }
        return await self._http.post(self._path(kind), json=body)

    async def patch(
        self, kind: str, change: Json, *, name: str = "x", subresource: str = ""
    ) -> httpx.Response:
        rest = [name, subresource] if subresource else [name]
        headers = {"Content-Type": "application/merge-patch+json"}
        return await self._http.patch(self._path(kind, *rest), json=change, headers=headers)

    async def delete(self, kind: str, name: str = "x") -> httpx.Response:
        return await self._http.delete(self._path(kind, name))


@pytest.fixture
async def shelf(plane: Plane, admin: httpx.AsyncClient) -> Shelf:
    await plane.install_crds(crd.crds())
    return Shelf(admin)


def causes(response: httpx.Response) -> list[tuple[str, str]]:
    """Return the fields at fault and what is said of them; none if the write went through."""
    if response.is_success:
        return []
    assert response.status_code == 422, response.text
    return [(c["field"], c["message"]) for c in response.json()["details"].get("causes", [])]


def fields(response: httpx.Response) -> set[str]:
    return {field for field, _ in causes(response)}


def said(response: httpx.Response, text: str) -> bool:
    return any(text in message for _, message in causes(response))


def ranges(*spans: tuple[str, str]) -> Json:
    return {"tenantAllocation": {"ranges": [{"start": a, "end": b} for a, b in spans]}}


def pool(cidr: str = "10.0.0.0/24", **rest: Any) -> Json:
    return {"cidr": cidr} | rest


def request(**rest: Any) -> Json:
    return {
        "poolRef": {"name": "lab"},
        "tenantClusterRef": {"name": "a", "namespace": "team"},
        "type": "nodes",
    } | rest


def cluster(**networking: Any) -> Json:
    spec: Json = {"kubernetesVersion": "v1.33.1", "workers": {"replicas": 1}}
    return spec | ({"networking": networking} if networking else {})


def by_hand(start: str, end: str) -> Json:
    return cluster(loadBalancerPool={"start": start, "end": end})


def provider(kind: str = "local", **rest: Any) -> Json:
    return {"provider": kind, "credentialsRef": {"name": "secret"}} | rest


def network(**rest: Any) -> Json:
    return provider(network={"mode": "ipam", "poolRefs": [{"name": "lab"}]} | rest)


ENDS = {"start": "10.0.0.9", "end": "10.0.0.3"}
QUOTA = {"quotaPerTenant": {"maxLoadBalancerIPs": 4}}
TENANT = "spec.tenantAllocation"

REFUSED: Mapping[str, tuple[str, Json, str, str]] = {
    "a CIDR that is none": ("NetworkPool", pool("10.0.0.0/33"), "spec.cidr", "must be a CIDR"),
    "a reserved CIDR that is none": (
        "NetworkPool",
        pool(reserved=[{"cidr": "10.0.0.300/28"}]),
        "spec.reserved[0].cidr",
        "must be a CIDR",
    ),
    "reserved outside": (
        "NetworkPool",
        pool(reserved=[{"cidr": "10.0.0.0/28"}, {"cidr": "10.0.1.0/28"}]),
        "spec.reserved",
        "must lie within the pool CIDR",
    ),
    "reserved larger than the pool": (
        "NetworkPool",
        pool(reserved=[{"cidr": "10.0.0.0/23"}]),
        "spec.reserved",
        "must lie within the pool CIDR",
    ),
    "start after end": ("NetworkPool", pool(tenantAllocation=ENDS), TENANT, "must not be after"),
    "start without end": (
        "NetworkPool",
        pool(tenantAllocation={"start": "10.0.0.1"}),
        TENANT,
        "both or none",
    ),
    "start outside": (
        "NetworkPool",
        pool(tenantAllocation={"start": "10.0.0.1", "end": "10.0.1.1"}),
        TENANT,
        "must lie within the pool CIDR",
    ),
    "an end that is no address": (
        "NetworkPool",
        pool(tenantAllocation={"start": "10.0.0.1", "end": "10.0.0.256"}),
        f"{TENANT}.end",
        "must be an IP address",
    ),
    "a range backwards": (
        "NetworkPool",
        pool() | ranges(("10.0.0.9", "10.0.0.3")),
        f"{TENANT}.ranges[0]",
        "must not be after",
    ),
    "ranges that overlap": (
        "NetworkPool",
        pool() | ranges(("10.0.0.1", "10.0.0.9"), ("10.0.0.9", "10.0.0.20")),
        f"{TENANT}.ranges",
        "sorted by start IP and non-overlapping",
    ),
    "ranges out of order": (
        "NetworkPool",
        pool() | ranges(("10.0.0.10", "10.0.0.19"), ("10.0.0.2", "10.0.0.9")),
        f"{TENANT}.ranges",
        "sorted by start IP and non-overlapping",
    ),
    "the same range twice": (
        "NetworkPool",
        pool() | ranges(("10.0.0.1", "10.0.0.9"), ("10.0.0.1", "10.0.0.9")),
        f"{TENANT}.ranges",
        "sorted by start IP and non-overlapping",
    ),
    "a range outside": (
        "NetworkPool",
        pool() | ranges(("10.0.0.1", "10.0.0.9"), ("10.0.0.250", "10.0.1.9")),
        f"{TENANT}.ranges",
        "must lie within the pool CIDR",
    ),
    "a range of words": (
        "NetworkPool",
        pool() | ranges(("first", "10.0.0.9")),
        f"{TENANT}.ranges[0].start",
        "must be an IP address",
    ),
    "a pinned range backwards": (
        "IPAllocation",
        request(pinnedRange={"startAddress": "10.0.0.10", "endAddress": "10.0.0.9"}),
        "spec.pinnedRange",
        "must not be after",
    ),
    "a pinned address that is none": (
        "IPAllocation",
        request(pinnedRange={"startAddress": "10.0.0.1", "endAddress": "10.0.0.256"}),
        "spec.pinnedRange.endAddress",
        "must be an IP address",
    ),
    "a count of nothing": (
        "IPAllocation",
        request(count=0),
        "spec.count",
        "greater than or equal",
    ),
    "a load-balancer pool backwards": (
        "TenantCluster",
        by_hand("10.0.0.10", "10.0.0.9"),
        "spec.networking.loadBalancerPool",
        "must not be after",
    ),
    "a load-balancer pool of words": (
        "TenantCluster",
        by_hand("first", "last"),
        "spec.networking.loadBalancerPool",
        "must be IP addresses",
    ),
    "a load-balancer pool without end": (
        "TenantCluster",
        cluster(loadBalancerPool={"start": "10.0.0.9"}),
        "spec.networking.loadBalancerPool.end",
        "Required value",
    ),
    "a size of nothing": (
        "TenantCluster",
        cluster(lbPoolSize=0),
        "spec.networking.lbPoolSize",
        "greater than or equal",
    ),
    "no credentials": ("ProviderConfig", {"provider": "nutanix"}, "spec", "credentialsRef"),
    "azure without settings": (
        "ProviderConfig",
        provider("azure"),
        "spec.azure",
        "azure settings",
    ),
    "aws without settings": ("ProviderConfig", provider("aws"), "spec.aws", "aws settings"),
    "gcp without settings": ("ProviderConfig", provider("gcp"), "spec.gcp", "gcp settings"),
    "a cloud's settings without identifier": (
        "ProviderConfig",
        provider("gcp", gcp={"projectID": "p"}),
        "spec.gcp.region",
        "Required value",
    ),
    "ipam without pools": (
        "ProviderConfig",
        network(poolRefs=[]),
        "spec.network.poolRefs",
        "at least one poolRef is required",
    ),
    "ipam in a cloud": (
        "ProviderConfig",
        network() | {"provider": "aws", "aws": {"region": "r"}},
        "spec.network.mode",
        "IPAM mode is not supported for cloud providers",
    ),
    "a team scope without team": (
        "ProviderConfig",
        provider(scope={"type": "team"}),
        "spec.scope.teamRef",
        "teamRef is required",
    ),
}

ACCEPTED: Mapping[str, tuple[str, Json]] = {
    "a size above the quota, as tenants get the quota": (
        "ProviderConfig",
        network(loadBalancer={"defaultPoolSize": 5}, **QUOTA),
    ),
    "ranges that touch": (
        "NetworkPool",
        pool() | ranges(("10.0.0.0", "10.0.0.9"), ("10.0.0.10", "10.0.0.255")),
    ),
    "as many ranges as there may be": (
        "NetworkPool",
        pool() | ranges(*((f"10.0.0.{n}", f"10.0.0.{n + 8}") for n in range(0, 160, 10))),
    ),
    "host bits": ("NetworkPool", pool("10.0.0.7/24", reserved=[{"cidr": "10.0.0.9/28"}])),
    "order by number, not by text": ("NetworkPool", pool() | ranges(("10.0.0.9", "10.0.0.10"))),
    "start and end beside ranges, ignored": (
        "NetworkPool",
        pool(
            tenantAllocation=ranges(("10.0.0.1", "10.0.0.9"))["tenantAllocation"]
            | {"start": "10.9.0.1", "end": "10.9.0.2"}
        ),
    ),
    "many reservations": (
        "NetworkPool",
        pool("10.0.0.0/16", reserved=[{"cidr": f"10.0.{n}.0/28"} for n in range(256)]),
    ),
    "one pinned address": (
        "IPAllocation",
        request(pinnedRange={"startAddress": "10.0.0.9", "endAddress": "10.0.0.9"}),
    ),
    "a load-balancer pool": ("TenantCluster", by_hand("10.0.0.9", "10.0.0.10")),
    "a default size above the quota": ("ProviderConfig", network(loadBalancer={}, **QUOTA)),
    "a size within the quota": (
        "ProviderConfig",
        network(loadBalancer={"allocationMode": "elastic", "initialPoolSize": 4}, **QUOTA),
    ),
    "a team scope": (
        "ProviderConfig",
        provider(scope={"type": "team", "teamRef": {"name": "a"}}),
    ),
    "harvester without settings": ("ProviderConfig", provider("harvester")),
}


async def test_what_one_object_tells_is_refused_at_its_field(shelf: Shelf) -> None:
    for what, (kind, spec, field, message) in REFUSED.items():
        answer = await shelf.create(kind, spec)
        assert field in fields(answer), (what, answer.text)
        assert said(answer, message), (what, answer.text)


async def test_what_is_sound_is_accepted(shelf: Shelf) -> None:
    for number, (what, (kind, spec)) in enumerate(ACCEPTED.items()):
        answer = await shelf.create(kind, spec, name=f"sound-{number}")
        assert answer.status_code == 201, (what, answer.text)


async def test_every_sample_is_accepted(shelf: Shelf) -> None:
    for path in folder("samples").iterdir():
        for document in yaml.safe_load_all(path.read_text()):
            if document["kind"] in PLURALS:
                meta = document["metadata"]
                answer = await shelf.create(document["kind"], document["spec"], meta["name"])
                assert answer.status_code == 201, answer.text


async def test_a_pools_cidr_only_grows(shelf: Shelf) -> None:
    await shelf.create("NetworkPool", pool("10.0.0.0/24"))
    for cidr, passes in (("10.0.0.0/25", False), ("10.0.1.0/24", False), ("10.0.0.0/23", True)):
        answer = await shelf.patch("NetworkPool", {"spec": {"cidr": cidr}})
        assert answer.is_success is passes, answer.text
        assert passes or fields(answer) == {"spec.cidr"}


async def test_a_request_cannot_be_changed(shelf: Shelf) -> None:
    await shelf.create("IPAllocation", request(count=4))
    answer = await shelf.patch("IPAllocation", {"spec": {"count": 5}})
    assert fields(answer) == {"spec"}
    labelled = await shelf.patch("IPAllocation", {"metadata": {"labels": {"a": "b"}}})
    assert labelled.is_success


async def test_a_provider_cannot_be_changed_once_addresses_were_given(shelf: Shelf) -> None:
    reference = {"name": "onprem", "namespace": "butler-system"}
    await shelf.create("TenantCluster", cluster() | {"providerConfigRef": reference})

    def moved(**change: str) -> Json:
        return {"spec": {"providerConfigRef": reference | change}}

    assert (await shelf.patch("TenantCluster", moved(name="other"))).is_success
    assert (await shelf.patch("TenantCluster", moved())).is_success
    given = {"status": {"lbAllocationRef": {"name": "team-a-lb"}}}
    assert (await shelf.patch("TenantCluster", given, subresource="status")).is_success
    for change in ({"name": "other"}, {"namespace": "elsewhere"}):
        answer = await shelf.patch("TenantCluster", moved(**change))
        assert fields(answer) == {"spec.providerConfigRef"}
    assert (await shelf.patch("TenantCluster", {"spec": {"timeServers": ["a"]}})).is_success


async def test_what_was_broken_before_the_rules_can_be_looked_after_and_goes(
    plane: Plane, admin: httpx.AsyncClient
) -> None:
    await plane.install_crds([_without_rules(one) for one in crd.crds()])
    shelf = Shelf(admin)
    broken = pool("10.0.0.0/33") | ranges(("10.9.0.9", "10.0.0.3"))
    assert (await shelf.create("NetworkPool", broken)).is_success
    await plane.install_crds(crd.crds())
    await _in_force(shelf)

    mark = {"metadata": {"finalizers": [names.FINALIZER_POOL], "labels": {"a": "b"}}}
    assert (await shelf.patch("NetworkPool", mark)).is_success
    told = {"status": {"totalIPs": 0, "observedGeneration": 1}}
    assert (await shelf.patch("NetworkPool", told, subresource="status")).is_success
    assert (await shelf.delete("NetworkPool")).is_success
    gone = await shelf.patch("NetworkPool", {"metadata": {"finalizers": None}})
    assert gone.is_success, gone.text
    assert (await shelf.delete("NetworkPool")).status_code == 404


async def _in_force(shelf: Shelf) -> None:
    """Wait until the server holds the rules: a real one does a moment after it stored them."""
    with anyio.fail_after(IN_FORCE):
        number = 0
        while (await shelf.create("NetworkPool", pool("10.0.0.0/33"), f"try-{number}")).is_success:
            number += 1


def _without_rules(definition: Json) -> Json:
    """Return a CRD as it was before it had rules."""

    def bare(schema: Any) -> Any:
        if isinstance(schema, dict):
            return {k: bare(v) for k, v in schema.items() if k != "x-kubernetes-validations"}
        return [bare(one) for one in schema] if isinstance(schema, list) else schema

    stripped: Json = bare(copy.deepcopy(definition))
    return stripped
