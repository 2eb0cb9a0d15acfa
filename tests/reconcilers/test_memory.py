"""The memory of a cached IPAllocation, by the sizes of its objects, not by that of the process."""

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
"""The limit for each further allocation."""

ADDRESSES = 64
"""The number of addresses of each allocation."""


def decode_allocation(number: int) -> IPAllocation:
    """Return an allocation of one of ten tenants, decoded from what an API server sends."""
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


def measure_bytes(objects: Iterable[object]) -> int:
    """Return the bytes of all objects that can be reached, each counted once."""
    seen: dict[int, object] = {}
    remaining = list(objects)
    while remaining:
        obj = remaining.pop()
        if id(obj) not in seen and not isinstance(obj, type | ModuleType):
            seen[id(obj)] = obj
            remaining += gc.get_referents(obj)
    return sum(map(sys.getsizeof, seen.values()))


def test_texts_that_are_the_same_in_two_allocations_are_one_object() -> None:
    first, other = decode_allocation(1), decode_allocation(11)
    text_getters: list[Callable[[IPAllocation], str | None]] = [
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
    for get_text in text_getters:
        assert get_text(first) == get_text(other)
        assert get_text(first) is get_text(other)


def test_the_single_addresses_of_a_range_are_not_kept() -> None:
    status = decode_allocation(3).status
    assert (status.startAddress, status.endAddress) == ("10.0.0.192", "10.0.0.255")
    assert (status.allocatedCount, status.addresses) == (ADDRESSES, ())


def test_each_further_allocation_takes_less_memory_than_the_limit() -> None:
    few, many = (
        [decode_allocation(number) for number in range(10)],
        [decode_allocation(n) for n in range(MANY)],
    )
    assert (measure_bytes(many) - measure_bytes(few)) / (MANY - len(few)) < MOST_BYTES
