"""Networks that hand out the same addresses. That is allowed, and reported on both.

Networks of two datacenters may have the same addresses, as sites do.
"""

from collections.abc import Iterable

from allocator import InvalidPool
from controller.meta import Key
from reconcilers.conditions import Finding
from reconcilers.integrations.core.sharing import share_any
from reconcilers.integrations.vitistack.api import NETWORKS, NetworkNamespace
from reconcilers.integrations.vitistack.ranges import NetworkSpace, space_of
from reconcilers.integrations.vitistack.world import static_of

OVERLAPPING = "Overlapping"


def overlaps(network: NetworkNamespace, networks: Iterable[NetworkNamespace]) -> list[Key]:
    """Return the other networks that hand out some of a network's addresses, in order."""
    mine = _space(network)
    return sorted(
        other.metadata.key
        for other in networks
        if mine is not None
        and other.metadata.key != network.metadata.key
        and _may_meet(network.spec.datacenterIdentifier, other.spec.datacenterIdentifier)
        and (theirs := _space(other)) is not None
        and share_any(mine.layout.blocks, theirs.layout.blocks)
    )


def finding(others: Iterable[Key]) -> Finding:
    """Return the condition of a network that shares addresses with others, or with none."""
    named = ", ".join(f"{NETWORKS.kind} {key}" for key in others)
    if named:
        text = f"addresses are also handed out by {named}"
        return Finding(OVERLAPPING, True, "PoolsOverlap", text)
    text = f"no other {NETWORKS.kind} hands out these addresses"
    return Finding(OVERLAPPING, False, "NoOverlap", text)


def _may_meet(one: str, other: str) -> bool:
    """Return whether two datacenters may be the same; a network need not name one."""
    return not one or not other or one == other


def _space(network: NetworkNamespace) -> NetworkSpace | None:
    static = static_of(network)
    if static is None or network.metadata.terminating:
        return None
    try:
        return space_of(static)
    except InvalidPool:
        return None  # it hands out nothing, and says why itself
