"""What must hold of every write about vitistack's networks, and in the end."""

from collections.abc import Iterator

from typing_extensions import override

from tests.reconcilers.simulation.laws import FIRST, SPANS, Judge
from tests.reconcilers.simulation.model import (
    INTERFACES,
    NETWORK_ADDRESSES,
    NETWORKS,
    Json,
    ModelServer,
)

LOWEST = 100
"""The first address of the first network; the lowest ones of the subnet are never handed out."""


def address(number: int) -> str:
    """Return the address of a number in SPANS."""
    return f"{FIRST}{LOWEST + number}"


def held(one: Json | None) -> str:
    """Return the address that an allocation holds; empty for none."""
    status: Json = (one or {}).get("status") or {}
    return str(status.get("address", "")) if status.get("phase") != "Released" else ""


def phase(one: Json) -> str:
    """Return the phase of an object; empty for none."""
    return str((one.get("status") or {}).get("phase", ""))


class NetworkJudge(Judge):
    """Looks at every change of allocations and configurations."""

    @override
    def _look(self, plural: str, old: Json | None, new: Json | None) -> None:
        if self.problem is not None or self.paused or new is None:
            return
        crimes: Iterator[str] = iter(())
        if plural == NETWORK_ADDRESSES:
            crimes = self._address(old, new)
        elif plural == INTERFACES:
            crimes = _configuration(new)
        self.problem = next(crimes, None)

    def _address(self, old: Json | None, new: Json) -> Iterator[str]:
        """Judge an allocation that came to have an address, or another."""
        name, before, now = new["metadata"]["name"], held(old), held(new)
        if before and now != before and phase(new) != "Released":
            yield f"{name} had {before}, and has {now or 'nothing'} now"
        if not now or now == before:
            return
        for other in self.model.of(NETWORK_ADDRESSES):
            if other is not new and held(other) == now:
                yield f"{name} and {other['metadata']['name']} both have {now}"
        wanted = new["spec"].get("requestedAddress", now)
        if wanted != now:
            yield f"{name} requested {wanted} and got {now}"
        first, last = SPANS[new["spec"]["networkNamespaceName"]]
        if now not in {address(number) for number in range(first, last + 1)}:
            yield f"{name} got {now}, which its network does not hand out"


def _configuration(new: Json) -> Iterator[str]:
    """Judge a configuration that is Ready."""
    if phase(new) != "Ready":
        return
    name, status = new["metadata"]["name"], new["status"]
    wanted = [one["name"] for one in new["spec"]["networkInterfaces"]]
    has = [one["name"] for one in status["networkInterfaces"] if one.get("ipv4Addresses")]
    if has != wanted:
        yield f"{name} is Ready with addresses of {has}, not of {wanted}"


def both_have(model: ModelServer) -> str | None:
    """Return which two allocations have one address, None if no two have."""
    seen: dict[str, str] = {}
    for one in model.of(NETWORK_ADDRESSES):
        now, name = held(one), one["metadata"]["name"]
        if now in seen:
            return f"{seen[now]} and {name} both have {now}"
        if now:
            seen[now] = name
    return None


def left_undone(model: ModelServer) -> str | None:
    """Return what should have been served, shown or released by now, None if nothing should."""
    used = {held(one) for one in model.of(NETWORK_ADDRESSES)}
    for one in model.of(NETWORK_ADDRESSES):
        spec, name = one["spec"], one["metadata"]["name"]
        first, last = SPANS[spec["networkNamespaceName"]]
        free = {address(number) for number in range(first, last + 1)} - used
        if "requestedAddress" in spec:
            free &= {spec["requestedAddress"]}
        if phase(one) not in {"Allocated", "Released"} and free:
            return f"{name} waits although there is {free}: {one}"
    for network in model.of(NETWORKS):
        name = network["metadata"]["name"]
        mine = [
            o for o in model.of(NETWORK_ADDRESSES) if o["spec"]["networkNamespaceName"] == name
        ]
        count = sum(phase(one) == "Allocated" for one in mine)
        summary = network["status"].get("ipAllocationSummary", {})
        if summary.get("allocatedCount") != count:
            return f"{name} counts {summary}, and {count} are allocated"
    for one in model.of(INTERFACES):
        if "deletionTimestamp" in one["metadata"]:
            return f"{one['metadata']['name']} is deleted and still there"
        name = one["metadata"]["name"]
        made = [
            model.get(NETWORK_ADDRESSES, f"{name}-{i['name']}")
            for i in one["spec"]["networkInterfaces"]
        ]
        if not all(made):
            return f"{name} lacks IPAllocations"
        ready = all(phase(each) == "Allocated" for each in made if each)
        if ready != (phase(one) == "Ready"):
            return f"{name} shows {one.get('status')}, its IPAllocations {made}"
    return None
