"""What must hold of every write about KKP's pools, and in the end."""

from collections.abc import Iterable, Iterator
from ipaddress import IPv4Address, IPv4Network
from itertools import combinations

from typing_extensions import override

from reconcilers.integrations.kubermatic.api import CONDITION
from tests.reconcilers.simulation.laws import Judge
from tests.reconcilers.simulation.model import (
    KKP_ALLOCATIONS,
    KKP_CLUSTERS,
    KKP_POOLS,
    Json,
    ModelServer,
)

MOST = 2
"""As many addresses, or the addresses of one prefix, a cluster gets of a pool at most."""
DATACENTERS: dict[str, dict[str, Json]] = {
    "p": {
        "x": {
            "type": "range",
            "poolCidr": "10.0.0.0/29",
            "allocationRange": 1,
            "excludeRanges": ["10.0.0.1", "10.0.0.5-10.0.0.7"],
        },
        "y": {"type": "prefix", "poolCidr": "10.0.1.0/30", "allocationPrefix": 31},
    },
    "q": {
        "x": {
            "type": "prefix",
            "poolCidr": "10.0.2.0/29",
            "allocationPrefix": 31,
            "excludePrefixes": ["10.0.2.2/31"],
        },
    },
}
"""The pools: the one of `p` in `x` has a gap, so that what a cluster gets may be split."""
SPACES = {
    ("p", "x"): frozenset(map(IPv4Address, ("10.0.0.0", "10.0.0.2", "10.0.0.3", "10.0.0.4"))),
    ("p", "y"): frozenset(IPv4Network("10.0.1.0/30")),
    ("q", "x"): frozenset(IPv4Network("10.0.2.0/29")) - frozenset(IPv4Network("10.0.2.2/31")),
}


def held(one: Json | None) -> list[IPv4Address]:
    """Return the addresses of an allocation, in their order."""
    spec: Json = (one or {}).get("spec") or {}
    found = list(IPv4Network(spec["cidr"])) if spec.get("cidr") else []
    for part in spec.get("addresses") or ():
        first, last = (int(IPv4Address(text)) for text in part.split("-"))
        found += [IPv4Address(number) for number in range(first, last + 1)]
    return found


def space_name(one: Json) -> tuple[str, str]:
    """Return the pool and the datacenter of an allocation."""
    return one["metadata"]["name"], one["spec"]["dc"]


def full_name(one: Json) -> str:
    """Return namespace and name of an allocation."""
    return f"{one['metadata']['namespace']}/{one['metadata']['name']}"


class KkpJudge(Judge):
    """Looks at every change of allocations."""

    @override
    def _look(self, plural: str, old: Json | None, new: Json | None) -> None:
        if self.problem is None and not self.paused and plural == KKP_ALLOCATIONS and new:
            self.problem = next(self._of(old, new), None)

    def _of(self, old: Json | None, new: Json) -> Iterator[str]:
        before, now, name = held(old), held(new), full_name(new)
        if now == before:
            return
        stays = old is not None and space_name(old) == space_name(new)
        if stays and now[: len(before)] != before:
            yield f"{name} had {_text(before)}, and has {_text(now)} now"
        for other in self.model.of(KKP_ALLOCATIONS):
            both = set(now) & set(held(other))
            if other is not new and space_name(other) == space_name(new) and both:
                yield f"{name} and {full_name(other)} both have {_text(both)}"
        if not set(now) <= SPACES.get(space_name(new), frozenset()):
            yield f"{name} got {_text(now)}, which its pool does not hand out"
        if len(now) > MOST or len(set(now)) < len(now):
            yield f"{name} got {_text(now)}, more than was ever asked for"
        if new["spec"].get("cidr") and new["spec"].get("addresses"):
            yield f"{name} has a prefix and ranges"


def _text(addresses: Iterable[IPv4Address]) -> str:
    return ", ".join(map(str, sorted(addresses)))


def both_have(model: ModelServer) -> str | None:
    """Return which two allocations have one address, None if no two have."""
    for one, other in combinations(model.of(KKP_ALLOCATIONS), 2):
        both = set(held(one)) & set(held(other))
        if both and space_name(one) == space_name(other):
            return f"{full_name(one)} and {full_name(other)} both have {_text(both)}"
    return None


def is_served(cluster: Json) -> bool:
    """Return whether a cluster gets addresses."""
    return not cluster["spec"].get("pause") and "deletionTimestamp" not in cluster["metadata"]


def missing(model: ModelServer, cluster: Json, pool: Json) -> int:
    """Return how many addresses a cluster lacks of a pool; 0 where it gets none of it."""
    datacenter = cluster["spec"]["cloud"]["dc"]
    wanted = pool["spec"]["datacenters"].get(datacenter)
    if wanted is None or not is_served(cluster):
        return 0
    has = model.get(KKP_ALLOCATIONS, f"{_namespace(cluster)}/{pool['metadata']['name']}")
    mine = held(has) if has and has["spec"]["dc"] == datacenter else []
    return max(int(wanted.get("allocationRange", 2)) - len(mine), 0)


def left_undone(model: ModelServer) -> str | None:
    """Return what should have been served, deleted or said by now, None if nothing should."""
    for cluster in model.of(KKP_CLUSTERS):
        lacking = [pool for pool in model.of(KKP_POOLS) if missing(model, cluster, pool)]
        for pool in lacking:
            space = pool["metadata"]["name"], cluster["spec"]["cloud"]["dc"]
            free = SPACES[space] - _used(model, space)
            if len(free) >= missing(model, cluster, pool):
                return f"{_namespace(cluster)} waits although {space} has {_text(free)}"
        said = (cluster.get("status") or {}).get("conditions", {}).get(CONDITION, {})
        if is_served(cluster) and (said.get("status") == "False") != bool(lacking):
            return f"{_namespace(cluster)} lacks {len(lacking)} and says {said}"
    for one in model.of(KKP_ALLOCATIONS):
        home = model.get(KKP_CLUSTERS, one["metadata"]["namespace"].removeprefix("cluster-"))
        if home is None or not is_served(home):
            continue
        if not held(one):
            return f"{full_name(one)} stays without addresses"
        if home["spec"]["cloud"]["dc"] not in DATACENTERS[one["metadata"]["name"]]:
            return f"{full_name(one)} is of a datacenter that its pool does not have"
    return None


def _used(model: ModelServer, space: tuple[str, str]) -> set[IPv4Address]:
    mine = [one for one in model.of(KKP_ALLOCATIONS) if space_name(one) == space]
    return {address for one in mine for address in held(one)}


def _namespace(cluster: Json) -> str:
    return f"cluster-{cluster['metadata']['name']}"
