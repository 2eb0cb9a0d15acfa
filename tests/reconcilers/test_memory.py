"""What a cached IPAllocation takes: by objects and their sizes, not by what a process holds."""

import gc
import sys
from collections.abc import Callable, Iterable
from types import ModuleType

import msgspec

from controller.codec import decode_object
from reconcilers.api.ipallocation import IPAllocation
from reconcilers.api.resources import IP_ALLOCATION

MANY = 200
MOST_BYTES = 2_600
ADDRESSES = 64


def decode_allocation(number: int) -> IPAllocation:
    """Return an allocation of one of ten tenants, as an API server sends it."""
    first = number * ADDRESSES
    texts = [f"10.{at >> 16}.{at >> 8 & 255}.{at & 255}" for at in range(first, first + ADDRESSES)]
    tenant = f"tenant-{number % 10}"
    stamp = "2026-01-01T00:00:00Z"
    writers = [
        {"manager": "butler-ipam", "operation": "Update", "subresource": part, "time": stamp}
        for part in ("", "status")
    ]
    ready = {"type": "Ready", "status": "True", "reason": "Allocated", "message": texts[0]}
    body = {
        "metadata": {
            "name": f"allocation-{number}",
            "namespace": "butler-system",
            "uid": f"00000000-0000-4000-8000-{number:012}",
            "resourceVersion": str(1_000 + number),
            "creationTimestamp": stamp,
            "finalizers": ["butler.butlerlabs.dev/ipallocation"],
            "labels": {
                "app.kubernetes.io/managed-by": "butler",
                "butler.butlerlabs.dev/network-pool": "pool",
                "butler.butlerlabs.dev/allocation-type": "loadbalancer",
                "butler.butlerlabs.dev/tenant": tenant,
            },
            "annotations": {"butler.butlerlabs.dev/tenant-uid": f"uid-{number % 10}"},
            "managedFields": writers,
        },
        "spec": {
            "poolRef": {"name": "pool"},
            "tenantClusterRef": {"name": tenant, "namespace": "team"},
            "type": "loadbalancer",
            "count": ADDRESSES,
        },
        "status": {
            "phase": "Allocated",
            "cidr": f"{texts[0]}/26",
            "startAddress": texts[0],
            "endAddress": texts[-1],
            "addresses": texts,
            "allocatedCount": ADDRESSES,
            "allocatedAt": stamp,
            "allocatedBy": "butler-ipam",
            "conditions": [ready | {"lastTransitionTime": stamp, "observedGeneration": 1}],
        },
    }
    return decode_object(IP_ALLOCATION, msgspec.json.encode(body))


def size(objects: Iterable[object]) -> int:
    """Return the bytes of all objects that can be reached, each counted once."""
    seen: dict[int, object] = {}
    remaining = list(objects)
    while remaining:
        obj = remaining.pop()
        if id(obj) not in seen and not isinstance(obj, type | ModuleType):
            seen[id(obj)] = obj
            remaining += gc.get_referents(obj)
    return sum(map(sys.getsizeof, seen.values()))


def test_texts_that_many_allocations_have_are_kept_once() -> None:
    first, other = decode_allocation(1), decode_allocation(11)
    texts: list[Callable[[IPAllocation], str | None]] = [
        lambda a: a.metadata.namespace,
        lambda a: a.metadata.finalizers[0],
        lambda a: a.metadata.labels["butler.butlerlabs.dev/tenant"],
        lambda a: min(a.metadata.labels),
        lambda a: next(iter(a.metadata.annotations)),
        lambda a: a.metadata.managedFields[1].subresource,
        lambda a: a.spec.poolRef.name,
        lambda a: a.spec.tenantClusterRef.name,
        lambda a: a.status.phase,
        lambda a: a.status.conditions[0].reason,
    ]
    for word in texts:
        assert word(first) == word(other)
        assert word(first) is word(other)


def test_the_single_addresses_of_a_range_are_not_kept() -> None:
    kept = decode_allocation(3).status
    assert (kept.startAddress, kept.endAddress) == ("10.0.0.192", "10.0.0.255")
    assert (kept.allocatedCount, kept.addresses) == (ADDRESSES, ())


def test_a_cached_allocation_takes_little_more_than_what_is_its_own() -> None:
    few, many = (
        [decode_allocation(number) for number in range(10)],
        [decode_allocation(n) for n in range(MANY)],
    )
    assert (size(many) - size(few)) / (MANY - len(few)) < MOST_BYTES
