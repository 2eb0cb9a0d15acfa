"""Decides when a pool gets a nonce: an edit without effect, which the operator has to acknowledge.

The operator does not repeat an acknowledgement whose write was lost. It also never acknowledges a
spec that was edited and written back before it read the edit. It counts again only after another
generation appears.
"""

from dataclasses import dataclass

from reconcilers.loadbalancers.cilium.pools import CiliumPool

NONCE_SECONDS = 5.0
"""After how many seconds without an acknowledgement a write is repeated in another form."""
_MOST_DOUBLINGS = 6
"""How often a pause is doubled: the longest one is 320 seconds."""


@dataclass(slots=True)
class NoncePause:
    """The pause before the next nonce of one pool; each pause is twice as long as the one before.

    Args:
        uid: uid of the pool.
        generation: the pool's generation at the last check.
        since: when this process first saw that generation, in monotonic seconds.
        nonces: how many nonces were due.
    """

    uid: str = ""
    generation: int = 0
    since: float = 0.0
    nonces: int = 0

    def end_if_due(self, pool: CiliumPool, now: float) -> bool:
        """End the pause if the pool had one generation for long enough; return whether it ended.

        Another generation restarts the pause: the operator needs time to acknowledge it. Where one
        pause ends, the next one begins, twice as long.

        Args:
            pool: the pool by a live read.
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
