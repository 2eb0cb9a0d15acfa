"""The largest objects that the CRDs allow fit the cost limits of CEL rules and etcd's size limit.

kube-apiserver limits the cost of a rule twice: it estimates the cost when a definition is written,
and counts the cost each time the rule runs. The largest objects must stay below both limits.
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
FIRST_ADDRESS: Mapping[Family, IPv4Address | IPv6Address] = {
    4: IPv4Address("200.100.0.0"),
    6: IPv6Address("ffff:ffff:ffff:ffff:ffff:ffff:ffff:0"),
}
FAMILIES = pytest.mark.parametrize("family", list(FIRST_ADDRESS))
LONGEST_NAME = 253
COUNTS = ("totalIPs", "allocatedIPs", "availableIPs", "largestFreeBlock")
NOW = "2026-01-01T00:00:00Z"
ETCD_REQUEST_LIMIT = 3 * 512 * 1024
"""etcd's default limit of a request in bytes (1.5 MiB); a request has a whole object."""
RESERVE = 64 * 1024
"""Bytes for managed fields, annotations and the rest of the request."""


def read_max_items(plural: str, *path: str) -> int:
    """Return the maxItems of a list in a CRD.

    Args:
        plural: the kind.
        path: the names of the fields that lead to the list.
    """
    [definition] = [
        candidate
        for candidate in crd.build_crds()
        if candidate["spec"]["names"]["plural"] == plural
    ]
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    for name in path:
        schema = schema["properties"][name]
    return int(schema["maxItems"])


def format_address(offset: int, family: Family) -> str:
    """Return the longest text of an address, counted from FIRST_ADDRESS of the family."""
    return (FIRST_ADDRESS[family] + offset).exploded.upper()


def build_largest_pool_spec(family: Family) -> Json:
    """Return the spec of a pool with the largest number of ranges and reservations."""
    bits = 32 if family == 4 else 128
    reserved = read_max_items("networkpools", "spec", "reserved")
    ranges = read_max_items("networkpools", "spec", "tenantAllocation", "ranges")
    return {
        "cidr": f"{format_address(0, family)}/{bits - 16}",
        "reserved": [
            {"cidr": f"{format_address(number * 32, family)}/{bits - 4}"}
            for number in range(reserved)
        ],
        "tenantAllocation": {
            "start": format_address(0, family),
            "end": format_address(65_535, family),
            "ranges": [
                {
                    "start": format_address(number * 4_000, family),
                    "end": format_address(number * 4_000 + 3_999, family),
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
"""The fields of a pool's journal except its promises (`assignments`)."""


def build_assignments(family: Family) -> Iterator[Json]:
    """Yield the largest number of promises that a pool can have, each with the longest texts."""
    for number in range(read_max_items("networkpools", "status", "assignments")):
        yield {
            "name": f"{number:0{LONGEST_NAME}}",
            "uid": "12345678-1234-1234-1234-123456789012",
            "resourceVersion": "9" * 19,
            "startAddress": format_address(number * 100, family),
            "endAddress": format_address(number * 100 + 99, family),
            "kind": CLAIMS,
        }


def build_conditions(message: str) -> list[Json]:
    """Return all conditions of a pool, each with a message and a long reason."""
    kinds = ("Ready", "Overlapping", "RangesOverlap", "ForeignManager", "Reconciling", "Stalled")
    reported = {
        "status": "True",
        "reason": "R" * 100,
        "message": message,
        "lastTransitionTime": NOW,
    }
    return [{"type": kind, **reported} for kind in kinds]


async def create_object(
    http: httpx.AsyncClient, plural: str, kind: str, spec: Json, name: str
) -> None:
    body = {
        "apiVersion": names.API_VERSION,
        "kind": kind,
        "metadata": {"name": name},
        "spec": spec,
    }
    answer = await http.post(f"{BASE}/{plural}", params={"fieldValidation": "Strict"}, json=body)
    assert answer.status_code == 201, answer.text


async def patch_object(http: httpx.AsyncClient, path: str, body: Json) -> Json:
    """Apply a merge patch without warnings; return the object."""
    answer = await http.patch(f"{BASE}/{path}", json=body, headers=MERGE)
    assert answer.status_code == 200, answer.text
    assert "Warning" not in answer.headers
    changed: Json = answer.json()
    return changed


@FAMILIES
async def test_the_largest_pool_can_be_created_and_changed_and_its_status_written(
    shared_admin: httpx.AsyncClient, family: Family
) -> None:
    name, spec = f"largest-{family}", build_largest_pool_spec(family)
    await create_object(shared_admin, "networkpools", kind="NetworkPool", spec=spec, name=name)
    status = {
        "assignments": list(build_assignments(family)),
        "conditions": build_conditions("m" * 32_768),
        **JOURNAL,
    }
    reported = await patch_object(shared_admin, f"networkpools/{name}/status", {"status": status})
    assert reported["status"] == status
    cidr = f"{format_address(0, family)}/{15 if family == 4 else 111}"
    wider = await patch_object(shared_admin, f"networkpools/{name}", {"spec": {"cidr": cidr}})
    assert wider["status"] == status


def merge_families(parts: Mapping[Family, Json]) -> Json:
    """Return the spec of a pool of both families, merged from a spec for each family."""
    second = {name: parts[6][name] for name in ("cidr", "reserved")}
    ranges = {"ranges": parts[6]["tenantAllocation"]["ranges"]}
    return parts[4] | {"secondary": second | {"tenantAllocation": ranges}}


async def test_the_largest_pool_of_both_families_stays_below_the_size_limit_of_etcd(
    shared_admin: httpx.AsyncClient, record_property: Note
) -> None:
    spec = merge_families({family: build_largest_pool_spec(family) for family in FIRST_ADDRESS})
    await create_object(
        shared_admin, "networkpools", kind="NetworkPool", spec=spec, name="largest-both"
    )
    promises = [
        {
            **four,
            "secondaryStartAddress": six["startAddress"],
            "secondaryEndAddress": six["endAddress"],
        }
        for four, six in zip(build_assignments(4), build_assignments(6), strict=True)
    ]
    texts = dict.fromkeys(COUNTS, "9" * 39)
    counts = dict.fromkeys(COUNTS, 2**31 - 1) | {"exactCounts": texts}
    status = counts | {
        "secondary": counts,
        "assignments": promises,
        "conditions": build_conditions("m" * 32_768),
        **JOURNAL,
    }
    path = "networkpools/largest-both"
    reported = await patch_object(shared_admin, f"{path}/status", {"status": status})
    assert reported["status"] == status
    size = len(json.dumps(reported, separators=(",", ":")))
    record_property("bytes", size)
    assert size + RESERVE < ETCD_REQUEST_LIMIT
    wider = await patch_object(
        shared_admin, path, {"spec": {"cidr": f"{format_address(0, 4)}/15"}}
    )
    assert wider["status"] == status


async def test_the_largest_allocation_of_both_families_lists_its_addresses(
    shared_admin: httpx.AsyncClient, record_property: Note
) -> None:
    reference = {"name": "n" * LONGEST_NAME, "namespace": "n" * 63}
    spec = {"poolRef": {"name": "lab"}, "tenantClusterRef": reference, "type": "nodes"}
    name, family_spec = "largest-both", {"ipFamilyPolicy": "RequireDualStack", "count": 2**31 - 1}
    await create_object(
        shared_admin, "ipallocations", kind="IPAllocation", spec=spec | family_spec, name=name
    )
    orders: tuple[tuple[Family, Family], ...] = ((4, 6), (6, 4))
    for first, second in orders:
        listed = LISTED_ADDRESSES[first]
        status = {
            "phase": "Allocated",
            "startAddress": format_address(0, first),
            "endAddress": format_address(listed - 1, first),
            "addresses": [format_address(number, first) for number in range(listed)],
            "families": [
                {
                    "family": f"IPv{family}",
                    "cidr": f"{format_address(0, family)}-{format_address(65_535, family)}",
                    "startAddress": format_address(0, family),
                    "endAddress": format_address(65_535, family),
                    "allocatedCount": 2**31 - 1,
                    "exactCount": "9" * 39,
                }
                for family in (first, second)
            ],
            "conditions": build_conditions("m" * 1_000),
        }
        reported = await patch_object(
            shared_admin, f"ipallocations/{name}/status", {"status": status}
        )
        assert reported["status"] == status
        size = len(json.dumps(reported, separators=(",", ":")))
        record_property(f"bytes, IPv{first} first", size)
        assert size + RESERVE < ETCD_REQUEST_LIMIT


@FAMILIES
async def test_the_largest_allocation_lists_its_addresses(
    shared_admin: httpx.AsyncClient, family: Family
) -> None:
    reference = {"name": "n" * LONGEST_NAME, "namespace": "n" * 63}
    spec = {"poolRef": {"name": "lab"}, "tenantClusterRef": reference, "type": "nodes"}
    name, listed = f"largest-{family}", LISTED_ADDRESSES[family]
    await create_object(
        shared_admin,
        "ipallocations",
        kind="IPAllocation",
        spec=spec | {"count": listed},
        name=name,
    )
    status = {
        "phase": "Allocated",
        "startAddress": format_address(0, family),
        "endAddress": format_address(listed - 1, family),
        "addresses": [format_address(number, family) for number in range(listed)],
        "conditions": build_conditions("m" * 1_000),
    }
    reported = await patch_object(shared_admin, f"ipallocations/{name}/status", {"status": status})
    assert reported["status"] == status
    marked = {"metadata": {"finalizers": [names.FINALIZER_ALLOCATION], "labels": {"a": "b"}}}
    assert (await patch_object(shared_admin, f"ipallocations/{name}", marked))["status"] == status
