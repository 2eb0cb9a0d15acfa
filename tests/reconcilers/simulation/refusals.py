"""Requests of which the API server refuses writes for good, for a while.

Law: a refused request costs a bounded number of writes in each resync, whatever its writes find.
"""

from collections import Counter
from random import Random

from tests.reconcilers.simulation.model import (
    ADDRESSES,
    ALLOCATIONS,
    CLAIMS,
    KKP_ALLOCATIONS,
    NETWORK_ADDRESSES,
    Json,
    ModelServer,
)

MOST_WRITES = 6
"""The most writes to a refused request that each replica sends within a resync.

A resync may see two tries, one as it begins and one as it ends. Each costs the write of what is
promised, the write that voids the promise, and one that shows why the request waits.
"""


class RefusedRequests:
    """The requests whose writes the model refuses, and how often each was written.

    Args:
        model: the API server.
    """

    def __init__(self, model: ModelServer) -> None:
        self._every_write: dict[str, bool] = {}
        """By name of a request: whether voiding writes are refused, too."""
        self.writes = Counter[str]()
        """By name of a request: all writes to it while it is refused."""
        model.refuses = self._refuses

    def refuse(self, name: str, *, every_write: bool = False) -> None:
        """Refuse the writes of addresses to a request, or every write of its status."""
        self._every_write[name] = every_write

    def change_refusal(self, name: str, rnd: Random) -> None:
        """Begin or stop to refuse the writes to a request, at random."""
        self._every_write.pop(name, None)
        if rnd.random() < 0.6:
            self.refuse(name, every_write=rnd.random() < 0.4)

    def clear(self) -> None:
        """Refuse no writes any more."""
        self._every_write.clear()

    def _refuses(self, method: str, plural: str, name: str, body: Json) -> bool:
        """Return whether a write is refused; count all writes to the refused requests."""
        if method not in {"POST", "PATCH"} or not self._every_write:
            return False
        status = body.get("status") or {}
        match method, plural:
            case "POST", plural if plural == ADDRESSES:
                request, is_grant = body["metadata"]["name"], True
            case "PATCH", plural if plural in {ALLOCATIONS, NETWORK_ADDRESSES} and status:
                request, is_grant = name, status.get("phase") == "Allocated"
            case "PATCH", plural if plural == CLAIMS and status:
                request, is_grant = name, "addressRef" in status
            case "PATCH", plural if plural == KKP_ALLOCATIONS:
                request = name.partition("/")[0].removeprefix("cluster-")
                is_grant = bool(body.get("spec"))
            case _:
                return False
        if request not in self._every_write:
            return False
        self.writes[request] += 1
        return is_grant or self._every_write[request]

    def describe_excess(self, replicas: int) -> str | None:
        """Describe the refused request that was written most, if it was written too often.

        Call it once for each resync: it judges all writes that were counted since the last one.

        Args:
            replicas: the number of replicas, each of which may send MOST_WRITES.
        """
        for name, count in self.writes.most_common(1):
            if count > MOST_WRITES * replicas:
                return f"{name} was written {count} times in a resync although it is refused"
        return None
