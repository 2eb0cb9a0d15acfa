"""What benchmarks of the API server write: IPAllocations, as the controllers have them."""

from typing import Any

PLACE = "butler.butlerlabs.dev/ipallocations"
PATH = "/apis/butler.butlerlabs.dev/v1alpha1/namespaces/default/ipallocations"


def allocation(name: str) -> dict[str, Any]:
    """Return a new allocation."""
    return {
        "apiVersion": "butler.butlerlabs.dev/v1alpha1",
        "kind": "IPAllocation",
        "metadata": {
            "name": name,
            "namespace": "default",
            "labels": {"butler.butlerlabs.dev/tenant": name, "butler.butlerlabs.dev/type": "lb"},
            "finalizers": ["butler.butlerlabs.dev/ipallocation"],
        },
        "spec": {
            "poolRef": {"name": "default-pool"},
            "tenantClusterRef": {"name": name, "namespace": "default"},
            "type": "loadbalancer",
            "count": 8,
        },
    }


def status(turn: int) -> dict[str, Any]:
    """Return the status of an allocation that was served, another one at each turn."""
    first = turn % 31 * 8
    addresses = [f"10.0.0.{first + at}" for at in range(8)]
    return {
        "phase": "Allocated",
        "cidr": f"10.0.0.{first}/29",
        "startAddress": addresses[0],
        "endAddress": addresses[-1],
        "addresses": addresses,
        "allocatedCount": 8,
        "allocatedAt": "2026-01-01T00:00:00Z",
        "conditions": [
            {
                "type": "Ready",
                "status": "True",
                "observedGeneration": 1,
                "lastTransitionTime": "2026-01-01T00:00:00Z",
                "reason": "Allocated",
                "message": f"{addresses[0]} to {addresses[-1]}",
            }
        ],
    }


def make_served_allocation(number: int) -> dict[str, Any]:
    """Return an allocation that holds eight addresses of 10.0.0.0/12, which no other holds."""
    first = number * 8
    addresses = [f"10.{at >> 16}.{at >> 8 & 255}.{at & 255}" for at in range(first, first + 8)]
    state = status(0)
    state |= {
        "cidr": f"{addresses[0]}/29",
        "startAddress": addresses[0],
        "endAddress": addresses[-1],
        "addresses": addresses,
    }
    state["conditions"][0]["message"] = f"{addresses[0]} to {addresses[-1]}"
    return allocation(f"filled-{number:06}") | {"status": state}
