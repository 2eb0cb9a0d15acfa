"""The report that pools hand out the same addresses, as a condition and as a sentence.

Two pools may hand out the same addresses, for example at sites behind NAT. It is reported on both
pools in the same words by a condition, by the webhooks, by `plan` and by `check`.

Hundreds of sites may have the same addresses. If a message named or counted all of their pools,
each new or deleted pool would change the conditions of all others. So a message names at most
NAMED pools, those near the pool (in the same namespace, or of the whole cluster), and says
"others" without a number.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from allocator import Family
from reconcilers.reporting.conditions import ConditionFinding
from reconcilers.reporting.wording import count_addresses, name_with_count
from reconcilers.spaces.offers import PoolName

NAMED = 5
"""The most pools that one message names."""
OVERLAPPING = "Overlapping"
"""The condition of a pool: whether another pool hands out addresses of it."""


class Kinds(Enum):
    """Kinds of pools that are compared; the value is the kind's name in messages."""

    NETWORK_POOLS = "NetworkPool"
    CLUSTER_API = "pool of Cluster API"
    KUBERMATIC = "IPAMPool"
    METAL3 = "IPPool"
    VITISTACK = "NetworkNamespace"


@dataclass(frozen=True, slots=True)
class SharingPool:
    """Another pool that hands out some of the same addresses.

    Args:
        part: the pool's part that hands them out; empty for the whole pool.
        by_family: the number of shared addresses of each family.
    """

    pool: PoolName
    part: str
    by_family: Mapping[Family, int]

    @property
    def label(self) -> str:
        """The pool by kind, namespace and name, and the number of shared addresses."""
        count = sum(self.by_family.values())
        where = f" in datacenter {self.part}" if self.part else ""
        return f"{self.pool.kind} {self.pool.key}{where} ({count_addresses(count)})"


@dataclass(frozen=True, slots=True)
class PoolSharing:
    """The other pools that hand out addresses of a pool.

    Args:
        pools: the pools that a message names.
        has_more: whether further pools, which a message does not name, hand out the addresses.
    """

    pools: tuple[SharingPool, ...] = ()
    has_more: bool = False

    @property
    def sentence(self) -> str:
        """A clause that names the other pools; empty if there are none."""
        if not self.pools:
            # More pools share addresses than a message names, and none of them is near.
            pool_labels = f"more than {NAMED} pools of other namespaces" if self.has_more else ""
        else:
            pool_labels = ", ".join(pool.label for pool in self.pools)
            pool_labels += ", and others" if self.has_more else ""
        return f"addresses are also handed out by {pool_labels}" if pool_labels else ""


NOTHING_SHARED = PoolSharing()


def make_overlapping_finding(
    sharing: PoolSharing, compared: Collection[Kinds], unreadable: Collection[PoolName] = ()
) -> ConditionFinding:
    """Return the condition that says which other pools hand out addresses of a pool.

    Args:
        sharing: the other pools that were found.
        compared: the kinds that were compared with the pool.
        unreadable: other pools of these kinds that cannot be decoded.
    """
    if sharing.sentence:
        return ConditionFinding(OVERLAPPING, True, reason="PoolsOverlap", message=sharing.sentence)
    kinds = _join_alternatives(sorted(compared, key=list(Kinds).index))
    if not unreadable:
        message = f"no other {kinds} hands out these addresses"
        return ConditionFinding(OVERLAPPING, False, reason="NoOverlap", message=message)
    labels = [f"{pool.kind} {pool.key}" for pool in sorted(unreadable)]
    pool_labels = name_with_count(labels, named_at_most=NAMED)
    message = (
        f"no other {kinds} that can be read hands out these addresses; what these pools hand out"
        f" is unknown, as they cannot be read: {pool_labels}; correct or delete them"
    )
    return ConditionFinding(OVERLAPPING, None, reason="PoolsUnreadable", message=message)


def _join_alternatives(kinds: Sequence[Kinds]) -> str:
    """Return "A, B or C" for the names of kinds."""
    words = [kind.value for kind in kinds] or ["pool"]
    return " or ".join(filter(None, [", ".join(words[:-1]), words[-1]]))
