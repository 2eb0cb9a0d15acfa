"""Pools that hand out the same addresses in one datacenter. That is allowed, and reported."""

from collections.abc import Iterable, Mapping, Sequence

from allocator import InvalidPool
from reconcilers.integrations.core.sharing import share_any
from reconcilers.integrations.kubermatic.api import Datacenter, IPAMPool
from reconcilers.integrations.kubermatic.spaces import DatacenterSpace, space_of


def overlaps(pool: IPAMPool, pools: Iterable[IPAMPool]) -> Mapping[str, Sequence[str]]:
    """Return by datacenter the names of the other pools that hand out some of its addresses."""
    found: dict[str, list[str]] = {}
    mine = {name: _space(datacenter) for name, datacenter in pool.spec.datacenters.items()}
    for other in pools:
        if other.metadata.name == pool.metadata.name:
            continue
        # Most pools have no datacenter in common: what they hand out is not compared.
        for name in mine.keys() & other.spec.datacenters.keys():
            one, theirs = mine[name], _space(other.spec.datacenters[name])
            if one is not None and theirs is not None and shares(one, theirs):
                found.setdefault(name, []).append(other.metadata.name)
    return {name: sorted(names) for name, names in found.items()}


def _space(datacenter: Datacenter) -> DatacenterSpace | None:
    try:
        return space_of(datacenter)
    except InvalidPool:
        return None  # it hands out nothing, and says why itself


def shares(one: DatacenterSpace, other: DatacenterSpace) -> bool:
    """Return whether two spaces have an address in common."""
    if one.family != other.family:
        return False
    mine = [one.addresses(blocks) for blocks in one.layout.blocks]
    theirs = [other.addresses(blocks) for blocks in other.layout.blocks]
    return share_any(mine, theirs)
