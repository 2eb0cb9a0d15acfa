"""When a pool is due a nonce: an edit without a meaning, which the operator has to acknowledge.

The operator does not repeat an acknowledgement whose write was lost. It never acknowledges a spec
that was edited and written back while it did not look. Only another generation brings it to count.
"""

from dataclasses import dataclass

from reconcilers.loadbalancers.cilium.pools import CiliumPool

NONCE_SECONDS = 5.0
"""After how many seconds without an acknowledgement a write is repeated in another form."""
_MOST_DOUBLINGS = 6


@dataclass(slots=True)
class NoncePause:
    """How long one pool is left as it stands before a nonce, each time twice as long.

    Args:
        uid: of the pool.
        generation: of the pool, when it was looked at last.
        since: when this process first saw that generation, in monotonic seconds.
        nonces: how many nonces were due.
    """

    uid: str = ""
    generation: int = 0
    since: float = 0.0
    nonces: int = 0

    def end(self, pool: CiliumPool, now: float) -> bool:
        """Return whether a pool stood unchanged for long enough; the next pause is longer.

        Args:
            pool: as it was read.
            now: monotonic seconds.
        """
        version = (pool.metadata.uid, pool.generation)
        if (self.uid, self.generation) != version:
            self.uid, self.generation = version
            self.since = now
        if now - self.since < NONCE_SECONDS * 2 ** min(self.nonces, _MOST_DOUBLINGS):
            return False
        self.nonces += 1
        return True
