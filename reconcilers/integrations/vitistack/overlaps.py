"""Networks that hand out the same addresses. That is allowed, and reported on both.

Networks of two datacenters may have the same addresses, as sites do.
"""

from collections.abc import Iterable, Sequence

from allocator import InvalidPool
from controller.meta import Key
from reconcilers.conditions import Finding
from reconcilers.integrations.core.sharing import share_any
from reconcilers.integrations.vitistack.api import NETWORKS, NetworkNamespace
from reconcilers.integrations.vitistack.caches import static_of
from reconcilers.integrations.vitistack.ranges import NetworkSpace, space_of

OVERLAPPING = "Overlapping"
NAMED = 5
"""Up to so many networks are named in a message."""


def overlaps(network: NetworkNamespace, networks: Iterable[NetworkNamespace]) -> list[Key]:
    """Return the other networks that hand out some of a network's addresses, the oldest first."""
    mine = _space(network)
    found = [
        other.metadata
        for other in networks
        if mine is not None
        and other.metadata.key != network.metadata.key
        and _may_meet(network.spec.datacenterIdentifier, other.spec.datacenterIdentifier)
        and (theirs := _space(other)) is not None
        and share_any(mine.layout.blocks, theirs.layout.blocks)
    ]
    found.sort(key=lambda one: (str(one.creationTimestamp), one.key))
    return [one.key for one in found]


def finding(others: Sequence[Key]) -> Finding:
    """Return the condition of a network that shares addresses with others, or with none.

    Of many the oldest are named, and the rest is not counted: else each network that comes or goes
    would have all of them written again.
    """
    if others:
        named = ", ".join(f"{NETWORKS.kind} {key}" for key in others[:NAMED])
        more = " and others" if len(others) > NAMED else ""
        text = f"addresses are also handed out by {named}{more}"
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
