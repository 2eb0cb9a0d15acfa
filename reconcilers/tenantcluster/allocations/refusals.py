"""Why no pool of a ProviderConfig serves a request, in words for conditions and events.

A refusal names the request, and the obstacle in each pool, in the order in which the pools are
tried. Replicas that read the same objects write the same words, so they do not overwrite each
other's conditions.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto

from reconcilers.api import names
from reconcilers.api.providerconfig import ProviderConfig
from reconcilers.reporting.poolreferences import describe_absent_pools
from reconcilers.reporting.wording import count_addresses

POOL_EXHAUSTED = "PoolExhausted"
POOL_NOT_FOUND = "PoolNotFound"
POOL_UNREADABLE = "PoolUnreadable"
_FAMILY_NAMES = {4: "IPv4", 6: "IPv6"}
_ADDRESSES = {names.TYPE_NODES: "node", names.TYPE_LOADBALANCER: "load-balancer"}


class PoolState(Enum):
    """What is known of a pool that a ProviderConfig names."""

    PRESENT = auto()
    """It exists."""
    ABSENT = auto()
    """It does not exist."""
    UNREADABLE = auto()
    """It exists and cannot be read. Neither it nor a pool of lower preference is chosen."""


@dataclass(frozen=True, slots=True)
class PoolRefusal:
    """Why one pool does not serve a request.

    Args:
        pool: the pool's name.
        count: how many addresses in a row of each family the request needs in this pool.
        obstacle: why the pool does not serve it, without a subject: "largest free block 64".
        state: whether the pool exists and can be read.
    """

    pool: str
    count: int
    obstacle: str
    state: PoolState = PoolState.PRESENT


@dataclass(frozen=True, slots=True)
class RequestRefusal:
    """Why no pool of a ProviderConfig serves a request.

    Args:
        kind: the type of the allocation: nodes or loadbalancer.
        families: the families that the tenant asks for, as words; empty if it names none.
        pools: each pool of the ProviderConfig, in the order in which they are tried.
        beside: the tenant's other requests, which are created together with this one or not at
            all, as words: "8 load-balancer addresses"; empty if there are none. The free blocks
            in `pools` do not contain their addresses.
    """

    provider: ProviderConfig
    kind: str
    families: str
    pools: tuple[PoolRefusal, ...]
    beside: str = ""

    @property
    def reason(self) -> str:
        """The reason of the condition."""
        states = {pool.state for pool in self.pools}
        if PoolState.UNREADABLE in states:
            # First, because the unreadable pool may have room: a correction of it may help.
            return POOL_UNREADABLE
        return POOL_EXHAUSTED if PoolState.PRESENT in states else POOL_NOT_FOUND

    @property
    def counts(self) -> tuple[int, ...]:
        """How many addresses the request needs in the pools that exist: distinct, ascending."""
        present = (pool for pool in self.pools if pool.state is PoolState.PRESENT)
        return tuple(sorted({pool.count for pool in present}))

    @property
    def sentence(self) -> str:
        """The request and each pool's obstacle: "needs 70 node addresses in a row; lab: …"."""
        return "; ".join([f"needs {self._request}", *map(self._describe_pool, self.pools)])

    @property
    def message(self) -> str:
        """The message of the condition."""
        if self.reason == POOL_NOT_FOUND:
            absent = describe_absent_pools(self.provider, [pool.pool for pool in self.pools])
            return f"no configured pool exists: {absent}"
        key = self.provider.metadata.key
        if self.reason == POOL_UNREADABLE:
            return f"no pool of ProviderConfig {key} can be chosen: {self.sentence}"
        return f"no pool of ProviderConfig {key} has room: {self.sentence}"

    @property
    def _request(self) -> str:
        """The request in words; without a number if pools need different numbers."""
        counts = self.counts
        plural = f"{_ADDRESSES[self.kind]} addresses"
        addresses = describe_count_of_type(self.kind, counts[0]) if len(counts) == 1 else plural
        families = f" ({self.families})" if self.families else ""
        beside = f", beside {self.beside}" if self.beside else ""
        return f"{addresses} in a row{families}{beside}"

    def _describe_pool(self, pool: PoolRefusal) -> str:
        """Return a pool's name and obstacle; its number of addresses if pools differ in it."""
        needs_number = pool.state is PoolState.PRESENT and len(self.counts) > 1
        number = f" ({pool.count} in a row)" if needs_number else ""
        return f"{pool.pool}{number}: {pool.obstacle}"


def describe_count_of_type(kind: str, count: int) -> str:
    """Return a number of addresses of a type, in words: "8 load-balancer addresses".

    Args:
        kind: the type of the allocation: nodes or loadbalancer.
        count: how many addresses.
    """
    return count_addresses(count, _ADDRESSES[kind])


def describe_free_blocks(largest_free: Mapping[int, int]) -> str:
    """Return the largest free block of each family that a request needs, in words.

    Args:
        largest_free: addresses in the largest free block, by family: 4 or 6.
    """
    if len(largest_free) == 1:
        return f"largest free block {next(iter(largest_free.values()))}"
    blocks = " and ".join(
        f"{size} of {_FAMILY_NAMES[family]}" for family, size in sorted(largest_free.items())
    )
    return f"largest free blocks {blocks}"
