"""NetworkPools and their IPAllocations: how they are made, edited and read."""

from collections.abc import Iterator, Mapping, Sequence
from ipaddress import ip_address
from typing import Any, ClassVar

from typing_extensions import override

from allocator import Family
from controller.cache import Cache
from controller.meta import Key
from reconcilers.addressing import familychoice
from reconcilers.api import names
from reconcilers.api.ipallocation import (
    ALLOCATED,
    FAILED,
    POOL_INDEX,
    REQUIRE_DUAL_STACK,
    SINGLE_STACK,
    IPAllocation,
    index_by_pool,
)
from reconcilers.api.resources import IP_ALLOCATION, NETWORK_POOL
from reconcilers.configuration.settings import AllocationSettings
from reconcilers.ipallocation.reconciler import IPAllocationReconciler
from reconcilers.ipallocation.release import ReleaseCheck, Released
from reconcilers.networkpool.events import PoolEvents
from reconcilers.networkpool.poolkind import make_networkpool_passes
from tests.reconcilers.simulation.adapter import (
    FIRST,
    NAMES,
    SPANS,
    Adapter,
    Address,
    Disturbance,
    Figure,
    Figures,
    Memory,
    Need,
    StatusMemory,
    expand_range,
    list_span_addresses,
)
from tests.reconcilers.simulation.model import ALLOCATIONS, POOLS, Json
from tests.reconcilers.simulation.replica import Process, Worker, World
from tests.reconcilers.simulation.wire import Flight

SECOND = "fd00::"
SECOND_ADDRESSES = frozenset(("", address) for address in expand_range(f"{SECOND}0", f"{SECOND}1"))
"""Of the second family, in a pool that has one."""
_SECONDARY: Json = {
    "cidr": f"{SECOND}/64",
    "tenantAllocation": {"ranges": [{"start": f"{SECOND}0", "end": f"{SECOND}1"}]},
}
_FAMILIES: tuple[Json, ...] = (
    {},
    {"ipFamilies": ["IPv6"]},
    {"ipFamilyPolicy": "PreferDualStack"},
    {"ipFamilyPolicy": "PreferDualStack", "ipFamilies": ["IPv6", "IPv4"]},
    {"ipFamilyPolicy": "RequireDualStack"},
    {"ipFamilyPolicy": "RequireDualStack", "ipFamilies": ["IPv6"]},
)
"""What requests say of families."""


class OpenReleaseCheck(ReleaseCheck):
    """Releases every range at once."""

    @override
    async def check(self, allocation: IPAllocation, mark: int) -> Released:
        return Released("the tenant was not asked")


class NetworkPoolReplica(Process):
    """A process that serves NetworkPools."""

    @override
    def _set_up(self) -> Sequence[Worker]:
        pools = Cache(NETWORK_POOL)
        allocations = Cache(IP_ALLOCATION, indexes={POOL_INDEX: index_by_pool})
        self.pools = self._create_feed(POOLS, pools)
        self.askers = self.allocations = self._create_feed(ALLOCATIONS, allocations)
        client, settings = self._create_client(), self.settings
        events = PoolEvents(self.recorder, self.clock, settings.event_interval)
        of_pools = make_networkpool_passes(
            client,
            pools,
            allocations=allocations,
            events=events,
            clock=self.clock,
            settings=settings,
        )
        of_allocations = IPAllocationReconciler(
            client,
            allocations,
            pools=pools,
            release=OpenReleaseCheck(),
            clock=self.clock,
            settings=AllocationSettings(),
        )

        def find_pool(key: Key) -> Key | None:
            allocation = allocations.get(key)
            return None if allocation is None else allocation.pool_key

        return (
            Worker(of_pools.reconcile, (self.pools,), find_pool=None, forget=of_pools.forget),
            Worker(
                of_allocations.reconcile,
                (self.allocations,),
                find_pool=find_pool,
                forget=of_allocations.forget,
            ),
        )


class NetworkPools(Adapter):
    """NetworkPools that serve IPAllocations."""

    pools = POOLS
    requests: ClassVar[tuple[str, ...]] = (ALLOCATIONS,)
    holders: ClassVar[tuple[str, ...]] = (ALLOCATIONS,)
    """The plurals of the objects that `allocationCount` counts."""
    memories: ClassVar[tuple[Memory, ...]] = (StatusMemory(),)
    finalizers: ClassVar[Mapping[str, str]] = {
        POOLS: names.FINALIZER_POOL,
        ALLOCATIONS: names.FINALIZER_ALLOCATION,
    }
    resets: ClassVar[Mapping[str, Json]] = {
        ALLOCATIONS: {
            "status": {
                **dict.fromkeys(("startAddress", "endAddress", "cidr", "families")),
                "phase": "Pending",
            }
        }
    }
    claims_free_addresses: ClassVar[bool] = False
    """Whether IPAddresses go, too: two replicas then see an address free at different times."""

    @override
    def make_replica(self, world: World) -> Process:
        return NetworkPoolReplica(world)

    @override
    def make_pool(self, name: str) -> None:
        if self.model.get(POOLS, name):
            return
        first, last = SPANS[name]
        span = {"start": f"{FIRST}{first}", "end": f"{FIRST}{last}"}
        spec: Json = {"cidr": "10.0.0.0/24", "tenantAllocation": {"ranges": [span]}}
        if name == "p" and self.plan.families and self.random.random() < 0.7:
            spec["secondary"] = _SECONDARY
        self.model.create(POOLS, {"metadata": {"name": name}, "spec": spec})

    @override
    def create_request(self, name: str, count: int = 1, since: str = "") -> None:
        meta: Json = {"name": name, "finalizers": [names.FINALIZER_ALLOCATION]}
        if since:
            meta["annotations"] = {names.ANNOTATION_REQUESTED_AT: since}
        body = {
            "metadata": meta,
            "spec": _make_spec(name, "p", count),
            "status": {"phase": "Pending"},
        }
        self.model.create(ALLOCATIONS, body)

    @override
    def find_request(self, name: str) -> Json | None:
        return self.model.get(ALLOCATIONS, name)

    @override
    def is_grant(self, flight: Flight, name: str) -> bool:
        is_its = (flight.method, flight.plural, flight.name) == ("PATCH", ALLOCATIONS, name)
        return is_its and "startAddress" in flight.body.get("status", {})

    @override
    def act_as_user(self) -> None:
        name = self.random.choice(NAMES)
        if self.model.get(ALLOCATIONS, name):
            if self.plan.force and self.random.random() < 0.5:
                self.model.remove_by_force(ALLOCATIONS, name)
            else:
                self.model.delete(ALLOCATIONS, name)
            return
        spec = _make_spec(name, self.pick_pool(), self.random.choice((1, 1, 2)))
        if self.plan.families:
            spec |= self.random.choice(_FAMILIES)
        self.model.create(ALLOCATIONS, {"metadata": {"name": name}, "spec": spec})

    @override
    def list_disturbances(self) -> Mapping[str, Sequence[Disturbance]]:
        return {"families": (self._add_family, self._wipe_second_family)}

    def _add_family(self) -> None:
        """Give pool p its second family, even while p is in use."""
        if self.model.get(POOLS, "p"):
            self.model.edit(POOLS, "p", {"spec": {"secondary": _SECONDARY}})

    def _wipe_second_family(self) -> None:
        """Wipe the second range and the phase from a status, as an editor would."""
        if name := self.pick_name(ALLOCATIONS):
            less = {"status": {"families": None, "phase": "Pending"}}
            self.model.edit(ALLOCATIONS, name, less)

    @override
    def list_shown(self, request: Json) -> frozenset[Address]:
        return frozenset(
            ("", address)
            for part in list_shown_ranges(request)
            for address in expand_range(part["startAddress"], part["endAddress"])
        )

    @override
    def list_offered(self, request: Json) -> frozenset[Address]:
        addresses = list_span_addresses(request["spec"]["poolRef"]["name"])
        return addresses | SECOND_ADDRESSES if self.plan.families else addresses

    @override
    def list_unserved(self) -> Iterator[tuple[str, list[Need]]]:
        for request in self.model.list_objects(ALLOCATIONS):
            pool = self.model.get(POOLS, request["spec"]["poolRef"]["name"])
            if pool is None or "deletionTimestamp" in pool["metadata"]:
                continue
            needs = _find_needs(request, pool)
            if needs is not None and not list_shown_ranges(request):
                yield self.describe_request(request), needs

    @override
    def read_figures(self, pool: Json) -> Iterator[Figures]:
        status, first = pool.get("status") or {}, list_span_addresses(pool["metadata"]["name"])
        yield Figures(first, _read_family_figures(status))
        # A holder counts although its pool has lost the family that it has addresses of.
        in_all = first | SECOND_ADDRESSES if pool["metadata"]["name"] == "p" else first
        if "secondary" in pool["spec"]:
            yield Figures(SECOND_ADDRESSES, _read_family_figures(status.get("secondary") or {}))
        yield Figures(in_all, {Figure.HOLDERS: status.get("allocationCount")}, self.holders)

    @override
    def find_unfinished_work(self) -> str | None:
        for request in self.model.list_objects(ALLOCATIONS):
            pool = self.model.get(POOLS, request["spec"]["poolRef"]["name"])
            if pool is None or "deletionTimestamp" in pool["metadata"]:
                continue
            if "deletionTimestamp" in request["metadata"]:
                return f"{self.describe_request(request)} is deleted and still there"
        return None

    @override
    def find_violations(self, plural: str, old: Json | None, new: Json | None) -> Iterator[str]:
        if plural == ALLOCATIONS and old is not None and new is not None:
            yield from self._judge_allocation(old, new)
        if plural == POOLS and old is not None and new is None:
            name = old["metadata"]["name"]
            for allocation in self.model.list_objects(ALLOCATIONS):
                if allocation["spec"]["poolRef"]["name"] == name and list_shown_ranges(allocation):
                    holder = self.describe_request(allocation)
                    yield f"pool {name} went while {holder} held a range of it"

    def _judge_allocation(self, old: Json, new: Json) -> Iterator[str]:
        """Yield the violations of an allocation whose ranges or phase have changed."""
        name, now = self.describe_request(new), list_shown_ranges(new)
        families = [ip_address(part["startAddress"]).version for part in now]
        if now and (
            list_shown_ranges(old) != now or _read_phase(old) != _read_phase(new) == ALLOCATED
        ):
            if _read_policy(new) == REQUIRE_DUAL_STACK and len(now) < 2:
                yield f"{name} requires both families and shows one"
            if len(set(families)) < len(families):
                yield f"{name} shows two ranges of one family"
        # What a pass refuses may be free a moment later, because its holder has vanished, and be
        # promised by another replica. The refusal voids that promise, and no address is lost.
        is_crime = not self.plan.force and not self.claims_free_addresses
        was_refused = _read_phase(new) == FAILED != _read_phase(old)
        if is_crime and was_refused and self._has_promise(old):
            yield f"{name} was refused what its pool had promised it"

    def _has_promise(self, allocation: Json) -> bool:
        """Return whether a pool has a promise to this version of an allocation."""
        meta = allocation["metadata"]
        pool = self.model.get(POOLS, allocation["spec"]["poolRef"]["name"])
        promises = [] if pool is None else StatusMemory().read_promises(pool)
        return any(
            (promise.uid, promise.version) == (meta["uid"], meta["resourceVersion"])
            for promise in promises
        )


def _make_spec(name: str, pool: str, count: int) -> Json:
    """Return the spec of an allocation."""
    return {
        "poolRef": {"name": pool},
        "tenantClusterRef": {"name": name, "namespace": "team"},
        "type": "loadbalancer",
        "count": count,
    }


def list_shown_ranges(allocation: Json) -> list[dict[str, str]]:
    """Return the ranges in the status of an allocation, each once."""
    status: dict[str, Any] = allocation.get("status") or {}
    ranges_shown: list[dict[str, str]] = []
    for part in (status, *(status.get("families") or [])):
        ends = {field: part[field] for field in ("startAddress", "endAddress") if part.get(field)}
        if ends and ends not in ranges_shown:
            ranges_shown.append(ends)
    return ranges_shown


def _read_family_figures(counts: Json) -> dict[Figure, int | None]:
    """Return the figures of one family from its counts in a pool's status."""
    return {figure: counts.get(field) for figure, field in _FAMILY_FIELDS.items()}


_FAMILY_FIELDS = {
    Figure.TOTAL: "totalIPs",
    Figure.USED: "allocatedIPs",
    Figure.FREE: "availableIPs",
    Figure.LARGEST: "largestFreeBlock",
    Figure.PERCENT: "utilizationPercent",
}


def _read_phase(allocation: Json) -> str | None:
    """Return the phase of an allocation, None if it has none."""
    phase: str | None = (allocation.get("status") or {}).get("phase")
    return phase


def _read_policy(allocation: Json) -> str:
    """Return the family policy of an allocation."""
    return str(allocation["spec"].get("ipFamilyPolicy") or SINGLE_STACK)


def _find_needs(allocation: Json, pool: Json) -> list[Need] | None:
    """Return the needs of an allocation: its first family, or both if it requires them.

    Return None if the pool lacks a family that the allocation requests.
    """
    offers: dict[Family, frozenset[Address]] = {4: list_span_addresses(pool["metadata"]["name"])}
    if "secondary" in pool["spec"]:
        offers[6] = SECOND_ADDRESSES
    asked = [
        familychoice.FAMILIES_BY_NAME[word] for word in allocation["spec"].get("ipFamilies", ())
    ]
    expected = list(familychoice.FAMILIES_BY_NAME.values())
    if _read_policy(allocation) != REQUIRE_DUAL_STACK:
        expected = (asked or expected)[:1]
    if not offers.keys() >= {*asked, *expected}:
        return None
    count = allocation["spec"]["count"]
    return [Need(offers[family], count, is_block=True) for family in expected]
