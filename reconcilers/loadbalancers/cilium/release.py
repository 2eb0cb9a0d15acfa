"""The steps that prove that the range of one allocation is out of Cilium.

The pool of the allocation is disabled, which drains it; then it is emptied. The operator
*acknowledges* a generation of the pool by counts with that observedGeneration. After each write it
has to acknowledge exactly the generation that our own write returned. A higher one does not count,
because the operator may write the status of a deleted pool to a new pool of the same name. One
such late status could look like an acknowledgement. So a release needs two acknowledgements, of
two generations of one uid, one after the other.

After a restart, or a write of another process, this process knows no generation to wait for. Then
a *nonce*, an edit without a meaning, makes a new generation. It is written only after the other
process has had time to finish: two replicas that both believe they lead would otherwise answer
each other's nonces for ever.

The operator does not repeat an acknowledgement whose write was lost, so a pool that is not
acknowledged for a while gets another nonce.

If a pool is emptied while a Service with a sharing key has an address of it, the operator keeps an
entry in its memory: a later Service with that key is given the address. Only a restart removes the
entry. So if such a Service was ever seen, the empty pool has to be acknowledged under another
leader than the one under which it was emptied.

The *mark* of a release is the position in the management cluster at which it began. The *basis* of
a pool, an annotation, is the position that its last write was computed from. If the basis is at or
above the mark, the pool was written since the release began.

An operator that stands still for longer than its Lease resumes with the pools that it had read,
beside the operator that took the Lease. So a range is not released at once after a takeover.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum

from reconcilers.api import names
from reconcilers.loadbalancers.cilium.nonces import NONCE_SECONDS, NoncePause
from reconcilers.loadbalancers.cilium.pools import (
    CILIUM_POOL,
    IPS_USED,
    CiliumPool,
    has_exactly,
    is_acknowledged,
    is_operator_silent,
    make_pool_name,
    overlaps_any,
    read_basis,
    read_count,
)
from reconcilers.loadbalancers.ownernotes import names_other_owner
from reconcilers.loadbalancers.port import (
    NotYet,
    Proven,
    Unprovable,
    Withdrawal,
    WithdrawalAnswer,
)

_NOT_ACKNOWLEDGED = "Cilium's operator in the tenant has not acknowledged the pool"
_RESTART_ADVICE = (
    "a Service with a sharing key had an address of the range, which Cilium's operator may give to"
    " a later Service with that key; restart the operator in the tenant: kubectl -n kube-system"
    " rollout restart deployment/cilium-operator"
)


class ReleaseWrite(Enum):
    """The next write to the pool of an allocation that is being released.

    DRAIN: disable the pool, so that no Service is given an address.
    EMPTY: remove its blocks.
    NONCE: change nothing but its generation.
    """

    DRAIN = "drain"
    EMPTY = "empty"
    NONCE = "nonce"


@dataclass(frozen=True, slots=True)
class Leader:
    """The Cilium operator that leads, by its Lease.

    Args:
        holder: its identity, which a restart changes; empty if it is not known.
        problem: why the holder is not known, as the end of a sentence; empty if it is known.
        took_over_at: when it took the Lease of another operator, by the clock of the tenant; None
            if no operator led before it, or if the time is not known.
        renewed_at: when it renewed the Lease last, by the same clock; None if that is not known.
        is_hidden: whether the controller has no right to read the Lease.
    """

    holder: str = ""
    problem: str = ""
    took_over_at: datetime | None = None
    renewed_at: datetime | None = None
    is_hidden: bool = False


LEADER_NOT_NEEDED = Leader()
"""The leader where no Service with a sharing key was seen."""


@dataclass(slots=True)
class ReleaseMemory:
    """What this process remembers of the release of one allocation.

    Args:
        uid: uid of the pool that it wrote last.
        generation: the generation that the last write returned; 0 if there was no write.
        written_at: when the last write was, in monotonic seconds.
        acknowledged: the first generation of this uid that the operator has acknowledged; None if
            it has acknowledged none yet.
        pause: the wait before a nonce, after another process wrote the pool.
        leader: the identity of the operator that led when this process wrote last.
    """

    uid: str = ""
    generation: int = 0
    written_at: float = 0.0
    acknowledged: int | None = None
    pause: NoncePause = field(default_factory=NoncePause)
    leader: str = ""

    def note_write(self, pool: CiliumPool, now: float, leader: Leader) -> None:
        """Remember a write of this process.

        Args:
            pool: the answer to the write.
            now: monotonic seconds.
            leader: the operator that led before the write.
        """
        self.leader = leader.holder
        if pool.metadata.uid != self.uid:
            # Two acknowledgements have to be of one pool.
            self.acknowledged = None
        self.uid, self.generation, self.written_at = pool.metadata.uid, pool.generation, now

    def is_own_write(self, pool: CiliumPool) -> bool:
        """Return whether the last write of a pool was this process's."""
        return (pool.metadata.uid, pool.generation) == (self.uid, self.generation)

    def note_acknowledgement(self) -> bool:
        """Remember that the generation of the last write is acknowledged.

        Returns:
            Whether an earlier generation of the pool was acknowledged, too.
        """
        if self.acknowledged is None:
            self.acknowledged = self.generation
        return self.acknowledged != self.generation


@dataclass(frozen=True, slots=True)
class ReleaseStep:
    """The next step of a release.

    Args:
        answer: the answer for the caller.
        write: the next write to the pool; None for no write.
    """

    answer: WithdrawalAnswer
    write: ReleaseWrite | None = None


def decide_step(
    pools: Mapping[str, CiliumPool],
    withdrawal: Withdrawal,
    memory: ReleaseMemory,
    now: float,
    leader: Leader = LEADER_NOT_NEEDED,
) -> ReleaseStep:
    """Return the next step of the release of a range, by one live read of all pools.

    The caller has read the Services after the pools, and none shows an address of the range.

    Args:
        pools: all pools, by name.
        withdrawal: the range.
        memory: the memory of this release; an acknowledgement is noted in it.
        now: monotonic seconds.
        leader: the operator that leads, read after the pools.
    """
    name = make_pool_name(withdrawal.allocation)
    pool = pools.get(name)
    if pool is None:
        # Others may have deleted it, and the operator may not have read that yet. So the caller
        # waits for a bounded time, and then releases the range.
        purpose = f"to learn that there is no {CILIUM_POOL.kind} {name}"
        return ReleaseStep(Unprovable(purpose, version=("no pool", 0)))
    if first := _decide_before_own_write(pool, withdrawal, memory=memory, now=now):
        return first
    if not is_acknowledged(pool):
        return _decide_unacknowledged(pools, pool, now - memory.written_at)
    other_pools = {
        other_name: other_pool for other_name, other_pool in pools.items() if other_name != name
    }
    step = _decide_acknowledged(
        pool, other_pools, withdrawal, is_confirmed=memory.note_acknowledgement()
    )
    if isinstance(step.answer, Proven) and withdrawal.release_note:
        # A Service with a sharing key had an address, which the operator may remember for it.
        return _decide_after_sharing(pool, memory, leader)
    return step


def judge_takeover(leader: Leader, now: datetime, wait: float) -> Proven | Unprovable:
    """Return Proven, or Unprovable if an earlier leader may still hand out a released range.

    If the Lease may not be read, a takeover would not be seen: that is Unprovable, too. If there
    is no Lease, no operator can have taken it: that is Proven.

    Args:
        leader: the operator that leads, read after the last acknowledgement.
        now: wall-clock time, for a Lease that does not say when it was renewed.
        wait: for how many seconds after a takeover an earlier leader may still hand out the range.
    """
    if leader.is_hidden:
        purpose = f"because {leader.problem}; an operator that lost it may stand still"
        return Unprovable(purpose, ("hidden Lease", 0))
    # Both times are of the clock of the tenant, which need not agree with ours.
    until = leader.renewed_at or now
    if leader.took_over_at is None or (until - leader.took_over_at).total_seconds() >= wait:
        return Proven()
    purpose = (
        f"after operator {leader.holder} took the Lease: the operator before it may stand still,"
        " and hand out what it had read when it goes on"
    )
    return Unprovable(purpose, (leader.holder, 0))


def _decide_after_sharing(pool: CiliumPool, memory: ReleaseMemory, leader: Leader) -> ReleaseStep:
    """Return the last step if a Service with a sharing key had an address of the emptied pool.

    The proof needs another leader than the one under which the pool was emptied, and an
    acknowledgement of a write that this process made under the new leader.
    """
    if leader.problem:
        return ReleaseStep(
            NotYet(f"a Service with a sharing key had an address, and {leader.problem}")
        )
    emptied_under = pool.metadata.annotations.get(names.ANNOTATION_EMPTIED_UNDER, "")
    if not emptied_under:
        # With the nonce, the caller notes the present leader on the pool (CiliumBalancer._write).
        return ReleaseStep(NotYet(_RESTART_ADVICE), ReleaseWrite.NONCE)
    if emptied_under == leader.holder:
        return ReleaseStep(NotYet(_RESTART_ADVICE))
    if memory.leader != leader.holder:
        return ReleaseStep(NotYet(f"{_NOT_ACKNOWLEDGED} since it restarted"), ReleaseWrite.NONCE)
    return ReleaseStep(Proven())


def _decide_before_own_write(
    pool: CiliumPool, withdrawal: Withdrawal, memory: ReleaseMemory, now: float
) -> ReleaseStep | None:
    """Return the step if the pool is not yet as this process has written it for this release.

    Returns:
        The step; None if this process wrote the pool last, for this release. Then the
        acknowledgement of that write decides.
    """
    name = pool.metadata.name
    # In this order: whose the pool is, whether the release began, whether the pool was edited
    # since, and who wrote it last.
    if names_other_owner(pool, withdrawal.owner):
        return ReleaseStep(NotYet(f"{CILIUM_POOL.kind} {name} is another TenantCluster's"))
    is_begun = pool.spec.disabled or not pool.blocks
    if not is_begun or read_basis(pool) < withdrawal.mark:
        return ReleaseStep(
            NotYet(f"{_NOT_ACKNOWLEDGED} since the release began"), ReleaseWrite.DRAIN
        )
    if pool.blocks and not has_exactly(pool, withdrawal.spans):
        # Emptying removes the edit, too: the operator would never acknowledge an unreadable block.
        return ReleaseStep(NotYet(f"{CILIUM_POOL.kind} {name} was edited"), ReleaseWrite.EMPTY)
    if not memory.is_own_write(pool):
        write = ReleaseWrite.NONCE if memory.pause.end_if_due(pool, now) else None
        return ReleaseStep(NotYet(f"{_NOT_ACKNOWLEDGED} since another process wrote it"), write)
    return None


def _decide_acknowledged(
    pool: CiliumPool,
    others: Mapping[str, CiliumPool],
    withdrawal: Withdrawal,
    *,
    is_confirmed: bool,
) -> ReleaseStep:
    """Return the step after an acknowledgement of the last write.

    In this order: wait while addresses are in use, empty the pool, have it acknowledged a second
    time, wait while another pool overlaps the range. Otherwise the release is proven.

    Args:
        pool: the pool of the allocation.
        others: all other pools, by name.
        withdrawal: the range.
        is_confirmed: whether an earlier generation of the pool was acknowledged, too. One late
            status of a deleted pool could look like a single acknowledgement.
    """
    if used := read_count(pool, IPS_USED):
        return ReleaseStep(
            NotYet(f"Cilium counts {used} addresses of the range in use", is_used=True)
        )
    if pool.blocks:
        return ReleaseStep(NotYet(f"{_NOT_ACKNOWLEDGED} without the range"), ReleaseWrite.EMPTY)
    if not is_confirmed:
        return ReleaseStep(NotYet(f"{_NOT_ACKNOWLEDGED} a second time"), ReleaseWrite.NONCE)
    overlapping = [
        other_name
        for other_name, other_pool in others.items()
        if overlaps_any(other_pool, withdrawal.spans)
    ]
    if overlapping:
        # By that pool the operator would go on handing out the range.
        kind = CILIUM_POOL.kind
        why = f"{kind} {min(overlapping)} in the tenant has addresses of the range; take them out"
        return ReleaseStep(NotYet(why))
    return ReleaseStep(Proven())


def _decide_unacknowledged(
    pools: Mapping[str, CiliumPool], pool: CiliumPool, waited: float
) -> ReleaseStep:
    """Return the step for a write that the operator has not acknowledged.

    The operator does not repeat an acknowledgement whose write was lost. So after NONCE_SECONDS a
    nonce makes a new generation. An operator that runs acknowledges it.

    If no pool at all was ever acknowledged, LB-IPAM is off or there is no operator, and a nonce
    has no answer. Then the pool is emptied without an acknowledgement: an operator that starts
    later finds nothing in it to hand out. But an operator may stand still, and have read the pool
    before. So an empty pool ends in `Unprovable`, and the caller waits a bounded time.

    Args:
        pools: all pools, by name.
        pool: the pool of the allocation.
        waited: seconds since this process wrote the pool.
    """
    if waited < NONCE_SECONDS:
        return ReleaseStep(NotYet(_NOT_ACKNOWLEDGED))
    if not is_operator_silent(pools):
        return ReleaseStep(NotYet(_NOT_ACKNOWLEDGED), ReleaseWrite.NONCE)
    if pool.blocks:
        return ReleaseStep(NotYet(f"{_NOT_ACKNOWLEDGED}, nor any other"), ReleaseWrite.EMPTY)
    return ReleaseStep(
        Unprovable(
            "to read its pools: it is unknown whether it does, because it has acknowledged none",
            (pool.metadata.uid, pool.generation),
        )
    )
