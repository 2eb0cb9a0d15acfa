"""The largest objects that the CRDs allow: within what rules may cost, and what etcd takes.

A real API server bounds the cost of a rule twice: estimated, when a definition is written, and
counted, each time a rule runs. Both bounds have to leave room for the longest list of everything.
"""

import json
from collections.abc import Iterator, Mapping
from ipaddress import IPv4Address, IPv6Address
from typing import Any

import httpx
import pytest

from allocator import LISTED_ADDRESSES, Family
from reconcilers.api import crd, names
from reconcilers.api.networkpool import MAX_KINDS
from tests.numbers import Note

pytestmark = pytest.mark.asyncio(loop_scope="module")
Json = dict[str, Any]
BASE = f"/apis/{names.API_VERSION}/namespaces/default"
MERGE = {"Content-Type": "application/merge-patch+json"}
FIRST: Mapping[Family, IPv4Address | IPv6Address] = {
    4: IPv4Address("200.100.0.0"),
    6: IPv6Address("ffff:ffff:ffff:ffff:ffff:ffff:ffff:0"),
}
FAMILIES = pytest.mark.parametrize("family", list(FIRST))
LONGEST_NAME = 253
COUNTS = ("totalIPs", "allocatedIPs", "availableIPs", "largestFreeBlock")
NOW = "2026-01-01T00:00:00Z"
REQUEST_TO_ETCD = 3 * 512 * 1024
"""The most bytes of one request to etcd, by default (1.5 MiB): a whole object is in it."""
ROOM = 64 * 1024
"""For what servers and people add: managed fields, annotations, the request around it."""


def most(plural: str, *path: str) -> int:
    """Return how many items a list has at most, by the CRD."""
    [definition] = [
        candidate for candidate in crd.crds() if candidate["spec"]["names"]["plural"] == plural
    ]
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    for name in path:
        schema = schema["properties"][name]
    return int(schema["maxItems"])


def text(offset: int, family: Family) -> str:
    return (FIRST[family] + offset).exploded.upper()


def largest_pool(family: Family) -> Json:
    """Return the spec of a pool with as many ranges and reservations as there may be."""
    bits = 32 if family == 4 else 128
    reserved = most("networkpools", "spec", "reserved")
    ranges = most("networkpools", "spec", "tenantAllocation", "ranges")
    return {
        "cidr": f"{text(0, family)}/{bits - 16}",
        "reserved": [
            {"cidr": f"{text(number * 32, family)}/{bits - 4}"} for number in range(reserved)
        ],
        "tenantAllocation": {
            "start": text(0, family),
            "end": text(65_535, family),
            "ranges": [
                {
                    "start": text(number * 4_000, family),
                    "end": text(number * 4_000 + 3_999, family),
                }
                for number in range(ranges)
            ],
        },
    }


CLAIMS = "ipaddressclaims.ipam.cluster.x-k8s.io"
JOURNAL: Json = {
    "journalOf": "12345678-1234-1234-1234-123456789012/0123456789abcdef",
    "revisions": {f"{CLAIMS}{number}": "9" * 19 for number in range(MAX_KINDS)},
}
"""The fields of a pool's journal beside its promises."""


def assignments(family: Family) -> Iterator[Json]:
    """Yield as many promises as a pool may hold, each with the longest texts."""
    for number in range(most("networkpools", "status", "assignments")):
        yield {
            "name": f"{number:0{LONGEST_NAME}}",
            "uid": "12345678-1234-1234-1234-123456789012",
            "resourceVersion": "9" * 19,
            "startAddress": text(number * 100, family),
            "endAddress": text(number * 100 + 99, family),
            "kind": CLAIMS,
        }


def conditions(message: str) -> list[Json]:
    kinds = ("Ready", "Overlapping", "RangesOverlap", "ForeignManager", "Reconciling", "Stalled")
    reported = {
        "status": "True",
        "reason": "R" * 100,
        "message": message,
        "lastTransitionTime": NOW,
    }
    return [{"type": kind, **reported} for kind in kinds]


async def create(http: httpx.AsyncClient, plural: str, kind: str, spec: Json, name: str) -> None:
    body = {
        "apiVersion": names.API_VERSION,
        "kind": kind,
        "metadata": {"name": name},
        "spec": spec,
    }
    answer = await http.post(f"{BASE}/{plural}", params={"fieldValidation": "Strict"}, json=body)
    assert answer.status_code == 201, answer.text


async def change(http: httpx.AsyncClient, path: str, body: Json) -> Json:
    answer = await http.patch(f"{BASE}/{path}", json=body, headers=MERGE)
    assert answer.status_code == 200, answer.text
    assert "Warning" not in answer.headers
    changed: Json = answer.json()
    return changed


@FAMILIES
async def test_the_largest_pool_can_be_created_and_changed_and_its_status_written(
    shared_admin: httpx.AsyncClient, family: Family
) -> None:
    name, spec = f"largest-{family}", largest_pool(family)
    await create(shared_admin, "networkpools", kind="NetworkPool", spec=spec, name=name)
    status = {
        "assignments": list(assignments(family)),
        "conditions": conditions("m" * 32_768),
        **JOURNAL,
    }
    reported = await change(shared_admin, f"networkpools/{name}/status", {"status": status})
    assert reported["status"] == status
    cidr = f"{text(0, family)}/{15 if family == 4 else 111}"
    wider = await change(shared_admin, f"networkpools/{name}", {"spec": {"cidr": cidr}})
    assert wider["status"] == status


def both(parts: Mapping[Family, Json]) -> Json:
    """Return the spec of a pool of both families, of those of one each."""
    second = {name: parts[6][name] for name in ("cidr", "reserved")}
    ranges = {"ranges": parts[6]["tenantAllocation"]["ranges"]}
    return parts[4] | {"secondary": second | {"tenantAllocation": ranges}}


async def test_the_largest_pool_of_both_families_is_far_from_what_etcd_takes(
    shared_admin: httpx.AsyncClient, record_property: Note
) -> None:
    spec = both({family: largest_pool(family) for family in FIRST})
    await create(shared_admin, "networkpools", kind="NetworkPool", spec=spec, name="largest-both")
    promises = [
        {
            **four,
            "secondaryStartAddress": six["startAddress"],
            "secondaryEndAddress": six["endAddress"],
        }
        for four, six in zip(assignments(4), assignments(6), strict=True)
    ]
    texts = dict.fromkeys(COUNTS, "9" * 39)
    counts = dict.fromkeys(COUNTS, 2**31 - 1) | {"exactCounts": texts}
    status = counts | {
        "secondary": counts,
        "assignments": promises,
        "conditions": conditions("m" * 32_768),
        **JOURNAL,
    }
    path = "networkpools/largest-both"
    reported = await change(shared_admin, f"{path}/status", {"status": status})
    assert reported["status"] == status
    size = len(json.dumps(reported, separators=(",", ":")))
    record_property("bytes", size)
    assert size + ROOM < REQUEST_TO_ETCD
    wider = await change(shared_admin, path, {"spec": {"cidr": f"{text(0, 4)}/15"}})
    assert wider["status"] == status


async def test_the_largest_allocation_of_both_families_lists_its_addresses(
    shared_admin: httpx.AsyncClient, record_property: Note
) -> None:
    reference = {"name": "n" * LONGEST_NAME, "namespace": "n" * 63}
    spec = {"poolRef": {"name": "lab"}, "tenantClusterRef": reference, "type": "nodes"}
    name, asks = "largest-both", {"ipFamilyPolicy": "RequireDualStack", "count": 2**31 - 1}
    await create(shared_admin, "ipallocations", kind="IPAllocation", spec=spec | asks, name=name)
    orders: tuple[tuple[Family, Family], ...] = ((4, 6), (6, 4))
    for first, second in orders:
        listed = LISTED_ADDRESSES[first]
        status = {
            "phase": "Allocated",
            "startAddress": text(0, first),
            "endAddress": text(listed - 1, first),
            "addresses": [text(number, first) for number in range(listed)],
            "families": [
                {
                    "family": f"IPv{family}",
                    "cidr": f"{text(0, family)}-{text(65_535, family)}",
                    "startAddress": text(0, family),
                    "endAddress": text(65_535, family),
                    "allocatedCount": 2**31 - 1,
                    "exactCount": "9" * 39,
                }
                for family in (first, second)
            ],
            "conditions": conditions("m" * 1_000),
        }
        reported = await change(shared_admin, f"ipallocations/{name}/status", {"status": status})
        assert reported["status"] == status
        size = len(json.dumps(reported, separators=(",", ":")))
        record_property(f"bytes, IPv{first} first", size)
        assert size + ROOM < REQUEST_TO_ETCD


@FAMILIES
async def test_the_largest_allocation_lists_its_addresses(
    shared_admin: httpx.AsyncClient, family: Family
) -> None:
    reference = {"name": "n" * LONGEST_NAME, "namespace": "n" * 63}
    spec = {"poolRef": {"name": "lab"}, "tenantClusterRef": reference, "type": "nodes"}
    name, most = f"largest-{family}", LISTED_ADDRESSES[family]
    await create(
        shared_admin, "ipallocations", kind="IPAllocation", spec=spec | {"count": most}, name=name
    )
    status = {
        "phase": "Allocated",
        "startAddress": text(0, family),
        "endAddress": text(most - 1, family),
        "addresses": [text(number, family) for number in range(most)],
        "conditions": conditions("m" * 1_000),
    }
    reported = await change(shared_admin, f"ipallocations/{name}/status", {"status": status})
    assert reported["status"] == status
    marked = {"metadata": {"finalizers": [names.FINALIZER_ALLOCATION], "labels": {"a": "b"}}}
    assert (await change(shared_admin, f"ipallocations/{name}", marked))["status"] == status
