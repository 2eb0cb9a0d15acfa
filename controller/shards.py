"""Divides the keys of controllers among replicas.

    key ─ compute_shard ─→ shard ─ a Lease for each (shardleases.py) ─→ replica

The number of shards is fixed, and each key belongs to the same shard in every replica. The lease
of a shard decides which replica works on it. Both steps use rendezvous hashing: the highest of the
hashes of all pairs wins. So with one shard more only the keys of the new shard move, and when a
replica goes its shards are divided among all others. Rejected: the hash modulo the number of
shards. Almost every key would move with each change of the number.

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
"""The shards of so many keys are cached, because each event and each pass needs one."""

log = get_logger(__name__)


@lru_cache(CACHED_KEYS)
def compute_shard(key: Key, count: int) -> int:
    """Return the shard that a key belongs to, which is the same in every process and version.

    Args:
        key: the key of an object.
        count: the number of shards.
    """
    return max(range(count), key=lambda shard: _hash_pair(str(shard), str(key)))


def build_lease_name(name: str, count: int, shard: int) -> str:
    """Return the name of a shard's Lease.

    Args:
        name: the first part of all names.
        count: the number of shards. It is a part of the name, because with another count the same
            shard has other keys.
        shard: the number of the shard, from 0 on.
    """
    return f"{name}-{count}-{shard}"


def build_member_prefix(name: str, count: int) -> str:
    """Return the first part of the names of all replicas' Leases."""
    return f"{name}-{count}-member-"


def build_member_lease_name(name: str, count: int, identity: str) -> str:
    """Return the name of a replica's Lease.

    Args:
        name: the first part of all names.
        count: how many shards there are.
        identity: the replica's name; a hash of it is a part of the Lease's name.
    """
    digest = blake2b(identity.encode(), digest_size=8).hexdigest()
    return f"{build_member_prefix(name, count)}{digest}"


def assign_shards(count: int, members: Collection[str]) -> Mapping[int, str]:
    """Assign each shard to a member, so that the numbers of shards differ by one at most.

    Without members no shard is assigned. The order of the members does not matter. Each shard goes
    to the member with the highest hash that may still get a shard. Plain rendezvous hashing was
    rejected here: with eight shards and two members it gives one member six or more in 29 of 100
    cases.

    Args:
        count: the number of shards.
        members: the names of the replicas.
    """
    if not members:
        return {}
    # Every member gets at least `smallest` shards, and `remainder` members get one more.
    smallest, remainder = divmod(count, len(members))
    sizes: Counter[str] = Counter()
    assignment = {}
    for shard in range(count):
        candidates = [member for member in members if sizes[member] < smallest + (remainder > 0)]
        winner = max(candidates, key=lambda member: (_hash_pair(member, str(shard)), member))
        if sizes[winner] == smallest:
            remainder -= 1  # this member now has one shard more than `smallest`
        sizes[winner] += 1
        assignment[shard] = winner
    return assignment


def _hash_pair(first: str, second: str) -> bytes:
    """Return the hash of a pair for rendezvous hashing; bytes compare like numbers."""
    return blake2b(f"{first}\n{second}".encode(), digest_size=8).digest()


class Shards:
    """The shards that this process works on now.

    Args:
        count: the number of shards.
    """

    def __init__(self, count: int) -> None:
        if count < 1:
            raise ValueError(f"there must be at least one shard, not {count}")
        self.count = count
        self.held: set[int] = set()
        """The shards whose leases this process holds; only ShardWork changes it."""

    def holds(self, key: Key) -> bool:
        """Return whether this process works on the shard of a key."""
        return compute_shard(key, self.count) in self.held


class Partition:
    """The keys of one controller that this process works on, and the passes that are running.

    Args:
        shards: the shards that this process holds.
        by: from a key to the key whose shard it belongs to; by default the key itself.
        forget: called when this process has given up a shard, with each key of it that was
            reconciled here.
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
        # By shard, the keys to call `forget` with.
        self._reconciled_keys: dict[int, set[Key]] = {}
        # By the cancel scope of each running pass, the shard of its key; None for no shard.
        self._running_passes: dict[anyio.CancelScope, int | None] = {}
        self._pass_ended = anyio.Event()

    def find_shard(self, key: Key) -> int | None:
        """Return the shard of a key; None if every replica may reconcile it.

        Raises:
            Exception: the function `by` raised it; a TypeError for a wrong result.
        """
        owner = key if self._by is None else call_for_key(self._by, key)
        return None if owner is None else compute_shard(owner, self._shards.count)

    def owns(self, key: Key) -> bool:
        """Return whether this process may reconcile a key.

        It may if it holds the shard of the key, or if every replica may reconcile the key.

        Raises:
            Exception: the function `by` raised it.
        """
        shard = self.find_shard(key)
        return shard is None or shard in self._shards.held

    def open_pass(self, key: Key) -> AbstractContextManager[anyio.CancelScope]:
        """Return a context inside of which the caller runs one pass over a key.

        The context yields the cancel scope of the pass. `cancel` of this partition uses it to end
        the pass when its shard is lost.

        Raises:
            Exception: the function `by` raised it. It is called here, not on entering the context,
                so that the caller can tell its error from an error of the pass.
        """
        return self._run_pass(key, self.find_shard(key))

    @contextmanager
    def _run_pass(self, key: Key, shard: int | None) -> Iterator[anyio.CancelScope]:
        """Count a pass as running inside the context, and yield its cancel scope.

        The key is noted for `forget`.
        """
        # A key without a shard is never given up, because every replica may reconcile it.
        if self._forget is not None and shard is not None:
            self._reconciled_keys.setdefault(shard, set()).add(key)
        with anyio.CancelScope() as scope:
            self._running_passes[scope] = shard
            try:
                yield scope
            finally:
                del self._running_passes[scope]
                self._pass_ended.set()  # wakes `wait_idle`
                self._pass_ended = anyio.Event()

    def cancel(self, shard: int) -> None:
        """Cancel the running passes over keys of a shard."""
        for scope, shard_of_pass in self._running_passes.items():
            if shard_of_pass == shard:
                scope.cancel()

    async def wait_idle(self, shard: int) -> None:
        """Wait until no pass over a key of a shard is running."""
        while shard in self._running_passes.values():
            await self._pass_ended.wait()

    def forget(self, shard: int) -> None:
        """Call the function `forget` with each key of a shard that was reconciled here."""
        for key in self._reconciled_keys.pop(shard, ()):
            assert self._forget is not None  # without it `_run_pass` notes no key
            try:
                call_plain(self._forget, key)
            except Exception:
                log.exception("forgetting a key raised", key=str(key))
