"""What several integrations hold of NetworkPools, together."""

from collections.abc import Sequence
from typing import Protocol

from typing_extensions import override

from allocator import AddressRange
from controller.meta import Key
from controller.runner import Controller
from reconcilers.api import names
from reconcilers.api.networkpool import NetworkPool
from reconcilers.networkpool.view import HeldRange, OtherHolders
from reconcilers.promises.reading import Behind

OFF_RETRY = 10.0
"""Seconds between two looks at a pool that only a person can end the wait of."""


class SharesNetworkPools(Protocol):
    """An integration that holds addresses of NetworkPools."""

    @property
    def holders(self) -> OtherHolders:
        """What it holds, for the reconciler of NetworkPools."""

    def enqueue_networkpools(self, controller: Controller) -> None:
        """Enqueue, in a controller, NetworkPools whose addresses are handed out or released."""


class AllHolders(OtherHolders):
    """All that any of these holds.

    Args:
        parts: of each integration.
    """

    def __init__(self, parts: Sequence[OtherHolders]) -> None:
        self._parts = parts

    @override
    def held(self, pool: NetworkPool) -> Sequence[AddressRange]:
        return [one for part in self._parts for one in part.held(pool)]

    @override
    def named(self, pool: NetworkPool) -> Sequence[HeldRange]:
        return [one for part in self._parts for one in part.named(pool)]

    @override
    def seen_blockers(self, pool: NetworkPool) -> int:
        return sum(part.seen_blockers(pool) for part in self._parts)

    @override
    async def blockers(self, pool: NetworkPool) -> int:
        return sum([await part.blockers(pool) for part in self._parts])

    @override
    def forget(self, pool: Key) -> None:
        for part in self._parts:
            part.forget(pool)


class UnservedClaims(OtherHolders):
    """What claims hold of NetworkPools, for a process that does not serve claims.

    A pool without the annotation of promises to claims never served one. A pool with it may have
    IPAddresses, which this process does not read, so it hands out nothing and is not deleted. An
    annotation that cannot be parsed, or names another uid, was copied, restored or edited: that
    says nothing about IPAddresses, so it counts as well.

    Another replica may serve claims. This is reported as every other wait, so the replicas do not
    write in turn (promises/waitlog.py).
    """

    @override
    def held(self, pool: NetworkPool) -> Sequence[AddressRange]:
        _check_no_claims(pool)
        return ()

    @override
    def seen_blockers(self, pool: NetworkPool) -> int:
        """Return 0; raise before a count is reported that a replica with more kinds corrects.

        Raises:
            Behind: claims may hold addresses of the pool.
        """
        _check_no_claims(pool)
        return 0

    @override
    async def blockers(self, pool: NetworkPool) -> int:
        _check_no_claims(pool)
        return 0


def _check_no_claims(pool: NetworkPool) -> None:
    """Raise if a pool has served claims.

    Raises:
        Behind: it has.
    """
    annotation = names.ANNOTATION_PROMISES
    if pool.metadata.annotations.get(annotation):
        reason = (
            f"annotation {annotation} shows that IPAddressClaims were served, and the integration"
            " is off; start the controller with --integration=clusterapi, or make sure that no"
            " IPAddress of this pool is in use and remove the annotation"
        )
        raise Behind(OFF_RETRY, reason)


def all_holders(sharing: Sequence[SharesNetworkPools], *, serves_claims: bool) -> OtherHolders:
    """Return what others than IPAllocations hold of NetworkPools.

    Args:
        sharing: the integrations that are on.
        serves_claims: whether one of them reads what claims hold.
    """
    others = [] if serves_claims else [UnservedClaims()]
    return AllHolders([*(one.holders for one in sharing), *others])
