"""Dividing the keys of controllers among replicas.

    key ─ shard_of ─→ shard ─ a Lease for each (shardleases.py) ─→ replica

The number of shards is fixed, and each key belongs to one of them in every replica. Which replica
works on a shard is decided by that shard's lease. Both steps use rendezvous hashing: the highest
of the hashes of all pairs wins. So with one shard more only the keys that it gets move, and when a
replica goes its shards are divided among all others. Rejected: the hash modulo the number of
shards, as almost every key would move with each change of the number.

A lease separates running processes and no others (leases.py): reconcilers have to be safe when two
replicas work on one key.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import lru_cache
from hashlib import blake2b

import anyio

from controller.callbacks import call_for_key, call_plain
from controller.loggers import get_logger
from controller.meta import Key

ShardBy = Callable[[Key], Key | None]
"""From a key to the key whose shard it belongs to; None if every replica may reconcile it."""

CACHED_KEYS = 131_072

log = get_logger(__name__)


@lru_cache(CACHED_KEYS)
def shard_of(key: Key, count: int) -> int:
    """Return the shard that a key belongs to: the same one in every process and version.

    Args:
        key: of an object.
        count: how many shards there are.
    """
    return max(range(count), key=lambda shard: _weight(str(shard), str(key)))


def lease_name(name: str, count: int, shard: int) -> str:
    """Return the name of a shard's Lease.

    Args:
        name: the first part of all names.
        count: how many shards there are. It is a part of the name, since a shard of one division
            and one of another have nothing in common but the number.
    """
    return f"{name}-{count}-{shard}"


def member_prefix(name: str, count: int) -> str:
    """Return how the names of all replicas' Leases begin; see `member_lease_name`."""
    return f"{name}-{count}-member-"


def member_lease_name(name: str, count: int, identity: str) -> str:
    """Return the name of a replica's Lease.

    Args:
        name: the first part of all names.
        count: how many shards there are.
        identity: the replica's name; a hash of it is a part of the Lease's name.
    """
    digest = blake2b(identity.encode(), digest_size=8).hexdigest()
    return f"{member_prefix(name, count)}{digest}"


def assign_shards(count: int, members: Collection[str]) -> Mapping[int, str]:
    """Assign each shard to a member; none gets two shards more than another.

    The order of the members does not matter. Plain rendezvous hashing was rejected here: of eight
    shards and two members it gives one of them six or more in 29 of 100 cases.

    Args:
        count: how many shards there are.
        members: the names of the replicas.
    """
    if not members:
        return {}
    least, larger = divmod(count, len(members))
    sizes: Counter[str] = Counter()
    assignment = {}
    for shard in range(count):
        free = [member for member in members if sizes[member] < least + (larger > 0)]
        chosen = max(free, key=lambda member: (_weight(member, str(shard)), member))
        larger -= sizes[chosen] == least
        sizes[chosen] += 1
        assignment[shard] = chosen
    return assignment


def _weight(member: str, other: str) -> bytes:
    return blake2b(f"{member}\n{other}".encode(), digest_size=8).digest()


class Shards:
    """The shards that this process works on now.

    Args:
        count: how many shards there are.
    """

    def __init__(self, count: int) -> None:
        if count < 1:
            raise ValueError(f"there must be at least one shard, not {count}")
        self.count = count
        self.held: set[int] = set()
        """Changed by the holder of the leases alone."""

    def holds(self, key: Key) -> bool:
        """Return whether this process works on the shard of a key."""
        return shard_of(key, self.count) in self.held


class Partition:
    """The keys of one controller that this process works on, and the passes that are running.

    Args:
        shards: those that are held here.
        by: from a key to the key whose shard it belongs to; by default the key itself.
        forget: called with each key that was reconciled here when its shard has gone.
    """

    def __init__(
        self,
        shards: Shards,
        by: ShardBy | None = None,
        forget: Callable[[Key], None] | None = None,
    ) -> None:
        self._shards = shards
        self._by = by
        self._forget = forget
        self._reconciled: dict[int, set[Key]] = {}
        self._running: dict[anyio.CancelScope, int | None] = {}
        self._ended = anyio.Event()

    def shard(self, key: Key) -> int | None:
        """Return the shard of a key; None if every replica may reconcile it.

        Raises:
            Exception: what the function `by` raises, or TypeError for a wrong result.
        """
        owner = key if self._by is None else call_for_key(self._by, key)
        return None if owner is None else shard_of(owner, self._shards.count)

    def owns(self, key: Key) -> bool:
        """Return whether this process may reconcile a key."""
        shard = self.shard(key)
        return shard is None or shard in self._shards.held

    def open_pass(self, key: Key) -> AbstractContextManager[anyio.CancelScope]:
        """Return a context to run a pass over a key in, which `cancel` cancels.

        Raises:
            Exception: as for `shard`, before the context is entered.
        """
        return self._running_in(key, self.shard(key))

    @contextmanager
    def _running_in(self, key: Key, shard: int | None) -> Iterator[anyio.CancelScope]:
        if self._forget is not None and shard is not None:
            self._reconciled.setdefault(shard, set()).add(key)
        with anyio.CancelScope() as scope:
            self._running[scope] = shard
            try:
                yield scope
            finally:
                del self._running[scope]
                self._ended.set()
                self._ended = anyio.Event()

    def cancel(self, shard: int) -> None:
        """Cancel the running passes over keys of a shard."""
        for scope, of in self._running.items():
            if of == shard:
                scope.cancel()

    async def wait_idle(self, shard: int) -> None:
        """Return once no pass over a key of a shard is running."""
        while shard in self._running.values():
            await self._ended.wait()

    def forget(self, shard: int) -> None:
        """Call `forget` for each key of a lost shard, to drop what is remembered of it."""
        for key in self._reconciled.pop(shard, ()):
            assert self._forget is not None  # else no key is noted
            try:
                call_plain(self._forget, key)
            except Exception:
                log.exception("forgetting a key raised", key=str(key))
