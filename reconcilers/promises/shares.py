"""Which requests a pass may promise ranges to, so that no tenant starves the others.

The API server may reject a write for good: by a quota of a namespace, or by an admission webhook.
A promise whose write is rejected holds a range and a place in the journal, and nobody gains by it.
So it is voided (`keeping.py`), and its request is *deferred*: nothing is promised to it before one
resync has passed, or before its spec changes. Otherwise the same request would be promised,
rejected and voided without end.

The voiding write may be rejected, too. Then the promise has to stay open: it is *stuck*. A tenant
with MOST_STUCK stuck promises gets no further promise until one of them is over. While the open
promises of all tenants fill half of a journal, a tenant with an open promise gets no further one.
The other half serves tenants without an open promise. This needs no memory of the process.

A tenant is a namespace, for requests of one kind. Pools whose requests are all in one namespace
have no tenants to tell apart, and no such limits.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from enum import Enum, auto

from controller.meta import ObjectMeta
from reconcilers.promises.identities import Holder, Tenant
from reconcilers.promises.journal import Identity, Promise

MOST_STUCK = 8
"""With so many stuck promises a tenant gets no further promise.

One object that refuses every write must not keep the others of its namespace waiting.
"""

TenantOf = Callable[[Holder], Tenant | None]
"""Returns the tenant of a request; None if the request belongs to no tenant."""


@dataclass(frozen=True, slots=True)
class _Deferral:
    """Until when a request is not chosen.

    Args:
        generation: the generation of the request; another generation ends the deferral.
        until: the end of the deferral, in monotonic seconds.
    """

    generation: int
    until: float


class ShareVerdict(Enum):
    """Whether a pass may promise something to a request."""

    ELIGIBLE = auto()
    """The request may get a promise."""
    DEFERRED = auto()
    """Not to this request: its last write was refused for good."""
    TENANT_WAITS = auto()
    """Not to any request of this tenant, which has open promises, or too many stuck ones."""


class Eligibility:
    """Decides for one choice which requests may get a promise; without limits by default.

    Args:
        deferrals: by uid of a request.
        stuck: how many stuck promises each tenant has.
        open_by_tenant: how many open promises each tenant has.
        most_open: how many open promises of all tenants fill half of the journal; None for no
            limit. From then on a tenant with an open promise has to wait.
    """

    def __init__(
        self,
        deferrals: Mapping[str, _Deferral] | None = None,
        stuck: Mapping[Tenant | None, int] | None = None,
        open_by_tenant: Mapping[Tenant | None, int] | None = None,
        most_open: int | None = None,
    ) -> None:
        self._deferrals = deferrals or {}
        self._stuck = stuck or {}
        self._open = Counter(open_by_tenant or {})
        self._most_open = most_open
        self._open_count = self._open.total()
        self.has_waiting_tenant = False
        """Whether a tenant waits that may get more as soon as open promises are written."""

    def judge(self, meta: ObjectMeta, tenant: Tenant | None) -> ShareVerdict:
        """Return the verdict on a request that waits: whether it may get a promise.

        A tenant that has to wait for its share sets `has_waiting_tenant`.

        Args:
            meta: the metadata of the request.
            tenant: the tenant of the request; None if it belongs to no tenant.
        """
        # The next pass could not promise more either, until one of its stuck promises is over. So
        # `has_waiting_tenant` is not set.
        if tenant is not None and self._stuck.get(tenant, 0) >= MOST_STUCK:
            return ShareVerdict.TENANT_WAITS
        # The other half of the journal is for tenants without an open promise.
        if tenant is not None and self._open[tenant] and self._is_half_full(self._open_count):
            # This tenant has a stuck promise, and stuck promises alone fill that half: the next
            # pass cannot promise more to the tenant either.
            is_hopeless = self._stuck.get(tenant) and self._is_half_full(sum(self._stuck.values()))
            self.has_waiting_tenant |= not is_hopeless
            return ShareVerdict.TENANT_WAITS
        deferral = self._deferrals.get(meta.uid)
        # Another generation means another spec, so the write may succeed.
        if deferral is not None and deferral.generation == meta.generation:
            return ShareVerdict.DEFERRED
        return ShareVerdict.ELIGIBLE

    def note_promised(self, tenant: Tenant | None) -> None:
        """Count a promise to a request of this tenant; None for a request without a tenant."""
        self._open[tenant] += 1
        self._open_count += 1

    def _is_half_full(self, count: int) -> bool:
        """Return whether so many open promises leave room only for tenants that have none."""
        return self._most_open is not None and count >= self._most_open


def no_tenant(_: Holder) -> Tenant | None:
    """Return None: for pools whose requests have no tenants to protect from each other."""
    return None


def get_namespace_as_tenant(holder: Holder) -> Tenant | None:
    """Return the namespace of a request as its tenant; None for a cluster-wide request."""
    namespace = holder.key.namespace
    return Tenant(holder.kind, namespace) if namespace else None


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits on promises in one pass, so that no tenant starves the others.

    Args:
        build_eligibility: returns the rule by which requests may get a promise, given the
            promises that are not settled.
        get_tenant: returns the tenant of a request.
    """

    build_eligibility: Callable[[Collection[Promise]], Eligibility]
    get_tenant: TenantOf = no_tenant


NO_LIMITS = Limits(lambda _: Eligibility())
"""Every request may get a promise."""


class Shares:
    """What one process remembers of refused writes to requests of one pool.

    If a restart loses this memory, each such request costs one more refused write.

    Args:
        resync: seconds for which a request is deferred.
    """

    def __init__(self, resync: float) -> None:
        self._resync = resync
        self._deferrals: dict[str, _Deferral] = {}
        self._stuck: set[Identity] = set()

    def defer(self, request: ObjectMeta, now: float, seconds: float | None = None) -> None:
        """Defer a request whose promise was voided.

        Args:
            request: as the promise names it.
            now: monotonic seconds.
            seconds: for how long; None for one resync.
        """
        until = now + (self._resync if seconds is None else seconds)
        self._deferrals[request.uid] = _Deferral(request.generation, until)

    def note_stuck(self, promise: Promise) -> None:
        """Note a promise that could neither be written nor voided."""
        self._stuck.add(promise.identity)

    def build_eligibility(
        self,
        still_open: Collection[Promise],
        get_tenant: TenantOf,
        capacity: int,
        now: float,
    ) -> Eligibility:
        """Return the rule by which requests may get a promise now; forget ended deferrals.

        Deferrals end with their time. A stuck promise is forgotten once it is no longer open.

        Args:
            still_open: the promises of the journal that are not settled.
            get_tenant: returns the tenant of a request.
            capacity: how many promises the journal has room for.
            now: monotonic seconds.
        """
        self._stuck &= {promise.identity for promise in still_open}
        self._deferrals = {
            uid: deferral for uid, deferral in self._deferrals.items() if deferral.until > now
        }
        with_tenants = [(promise, get_tenant(promise.holder)) for promise in still_open]
        stuck = Counter(
            tenant for promise, tenant in with_tenants if promise.identity in self._stuck
        )
        open_by_tenant = Counter(tenant for _, tenant in with_tenants)
        return Eligibility(
            self._deferrals, stuck, open_by_tenant=open_by_tenant, most_open=capacity // 2
        )

    def next_in(self, now: float) -> float | None:
        """Return in how many seconds the next deferral ends; None if no request is deferred."""
        ends = [deferral.until for deferral in self._deferrals.values()]
        return max(min(ends) - now, 0.0) if ends else None
