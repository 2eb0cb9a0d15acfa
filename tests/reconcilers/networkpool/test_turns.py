"""A pass tries only one of several equal requests, and each gets the result as if all were tried.

Equal waiting requests form a row. If the first request of a row is refused, the pass leaves out
the rest of the row.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import fields

from allocator import AddressRange
from reconcilers.addressing import familychoice, poolgeometry, rangetaking
from reconcilers.api.ipallocation import IPAllocation, IPAllocationSpec
from reconcilers.api.networkpool import NetworkPool
from reconcilers.networkpool.allocationtaking import AllocationTaker
from reconcilers.networkpool.facts import KIND, find_place, is_unserved, make_holder, make_row
from reconcilers.networkpool.pending_promises import (
    list_unshown_refusals,
    render_allocated,
    render_refused,
)
from reconcilers.networkpool.view import AllocationsView
from reconcilers.promises.choosing import (
    AskerRefusal,
    Choice,
    Grant,
    Refused,
    ServedAskers,
    choose,
    count_promise,
    exclude_ranges,
)
from reconcilers.promises.holdings import KeptHoldings, Layouts
from reconcilers.promises.journal import Promise, PromisedRange
from tests.calls import calls_of
from tests.reconcilers import make
from tests.reconcilers.lab import Lab, Replica

SECOND = {"cidr": "fd00::40:0/125"}
BITS = 4  # the pool has 2^4 addresses of the first family, and 8 of the second
SIZES = st.integers(1, 5)


def choose_one_by_one(
    taker: AllocationTaker, view: AllocationsView, promises: Sequence[Promise], room: int
) -> Choice[IPAllocation]:
    """Return the choice of a pass that tries each waiting request, up to `room` grants."""
    promised = {promise.uid for promise in promises}
    queue = sorted((request for request in view.of_pool if is_unserved(request)), key=find_place)
    grants: list[Grant[IPAllocation]] = []
    refusals: list[AskerRefusal[IPAllocation]] = []
    for request in queue:
        if request.metadata.uid in promised:
            continue
        if len(grants) == room:
            return Choice(tuple(grants), tuple(refusals), more=True)
        holder = make_holder(request)
        try:
            grants.append(Grant(holder, request, *taker.take(request)))
        except Refused as refused:
            is_shown = taker.is_refusal_shown(request, refused)
            refusals.append(
                AskerRefusal(
                    holder,
                    request,
                    reason=refused.reason,
                    message=refused.message,
                    is_shown=is_shown,
                )
            )
    return Choice(tuple(grants), tuple(refusals), more=False)


@st.composite
def _requests(draw: st.DrawFn) -> dict[str, Any]:
    """Draw arguments of `make.allocation`: a count, a block or a pinned range, of any families."""
    policy = draw(st.sampled_from([None, "SingleStack", "PreferDualStack", "RequireDualStack"]))
    families = draw(st.sampled_from([[], [], ["IPv4"], ["IPv6"], ["IPv6", "IPv4"]]))
    asks = ({"ipFamilyPolicy": policy} if policy else {}) | (
        {"ipFamilies": families} if families else {}
    )
    fields_of_request: dict[str, Any] = {"age": float(draw(st.integers(0, 3))), "asks": asks}
    first = draw(st.integers(0, 17))
    kind = draw(st.sampled_from(["count", "count", "count", "default", "block", "pin"]))
    if kind == "count":
        fields_of_request["size"] = draw(SIZES)
    elif kind == "block":
        fields_of_request["prefix"] = draw(st.sampled_from([29, 30, 31, 125, 126, 200]))
    elif kind == "pin":
        fields_of_request["pin"] = (
            make.address(first),
            make.address(first + draw(st.integers(0, 2))),
        )
    held_range = make.address(first), make.address(first + 1)
    return fields_of_request | draw(
        st.sampled_from(
            [
                *(
                    {},
                    {},
                    {},
                    {"finalizers": []},
                    {"held_range": held_range},
                    {"held_range": held_range, "phase": "Failed"},
                ),
                {"phase": "Failed", "status": {"conditions": [_make_stale_refusal()]}},
            ]
        )
    )


def _make_stale_refusal() -> dict[str, Any]:
    """Return the condition of an earlier refusal, whose message no pass writes now."""
    condition = {
        "type": "Ready",
        "status": "False",
        "reason": "PoolExhausted",
        "message": "of an earlier version",
    }
    return condition | {"lastTransitionTime": make.EPOCH.isoformat()}


@dataclass
class PoolPasses:
    """A pool and its allocations, as passes change them.

    Attributes:
        arguments: the arguments of `make.allocation`, by the name of the allocation.
    """

    pool: NetworkPool
    arguments: dict[str, dict[str, Any]] = field(default_factory=dict)
    allocations: dict[str, IPAllocation] = field(default_factory=dict)

    def ask(self, name: str, request: dict[str, Any]) -> None:
        """Add or replace the allocation `name`."""
        self.arguments[name] = request
        self.allocations[name] = make.allocation(name, **request)

    def vanish(self, name: str) -> None:
        """Remove the allocation `name`."""
        self.allocations.pop(name, None)

    def write(self, allocation: IPAllocation, status: dict[str, Any]) -> None:
        """Store a status that a pass has written to an allocation."""
        name = allocation.metadata.name
        left_out = {"phase", "status"} | ({"held_range"} if "startAddress" in status else set())
        kept = {k: v for k, v in self.arguments[name].items() if k not in left_out}
        self.allocations[name] = make.allocation(
            name, phase=status["phase"], status=status, **kept
        )

    def run_pass(self, promised: Sequence[str], room: int) -> None:
        """Choose by rows and one by one, compare the choices, and write the result.

        Args:
            promised: the names of allocations that have an open promise.
            room: the most grants of the pass.
        """
        view = make.view(*self.allocations.values())
        # All promises have the same address: only that they are open matters here.
        promised_address = AddressRange.parse(make.address(20), make.address(20))
        promises = [
            Promise(
                KIND,
                allocation.metadata.key,
                uid=allocation.metadata.uid,
                resourceVersion=allocation.metadata.resourceVersion,
                ranges=(PromisedRange(promised_address, "IPv4"),),
            )
            for name, allocation in self.allocations.items()
            if name in promised
        ]
        geometry = poolgeometry.parse_layouts(self.pool.spec, 1 << 20)

        layouts: Layouts = {
            familychoice.FAMILY_NAMES[layout.family]: layout for layout in geometry
        }
        view.holdings.replace_layouts(layouts)
        ranges = [part for promise in promises for part in promise.ranges]

        def make_taker() -> AllocationTaker:
            spaces = [view.holdings.get_space(name) for name in layouts]
            return AllocationTaker(
                self.pool, view.find, spaces=spaces, holdings=view.holdings, promises=()
            )

        def choose_expected(room: int) -> Choice[IPAllocation]:
            with exclude_ranges(view.holdings, ranges):
                return choose_one_by_one(make_taker(), view, promises=promises, room=room)

        with exclude_ranges(view.holdings, ranges):
            decided = choose(
                view.holdings, [ServedAskers(make_taker())], promises, room, count=count_promise
            )
        expected = choose_expected(room)
        unshown = list_unshown_refusals(decided.refusals)
        assert decided.grants == expected.grants
        assert unshown == list_unshown_refusals(expected.refusals)
        assert bool(decided.refusals) == bool(expected.refusals)
        if decided.more != expected.more:
            # The requests beyond the room would get neither a range nor another refusal.
            complete = choose_expected(len(self.allocations))
            assert expected.more
            assert (complete.grants, list_unshown_refusals(complete.refusals)) == (
                decided.grants,
                unshown,
            )
        for grant in decided.grants:
            status = render_allocated(
                grant.asker, self.pool, ranges=grant.addresses, now=make.EPOCH
            )
            self.write(grant.asker, status)
        for refusal in unshown:
            self.write(refusal.asker, render_refused(refusal, make.EPOCH))


NAMES = st.sampled_from("abcdefghijkl")
STEPS = st.one_of(
    st.tuples(st.just("ask"), NAMES, _requests()),
    st.tuples(st.just("vanish"), NAMES, st.none()),
    st.tuples(st.just("pass"), st.lists(NAMES, max_size=2), st.integers(0, 4)),
)
PASS: tuple[str, Any, Any] = ("pass", [], 99)
"""A pass without open promises and with room for all requests."""
IPV6_HOLDER = ("a", {"asks": {"ipFamilies": ["IPv6"]}, "size": 8, "age": 9.0})
"""A request for all addresses of the second family."""
DUAL_STACK = {"asks": {"ipFamilyPolicy": "RequireDualStack"}, "size": 4}
HALF_LOST = DUAL_STACK | {"held_range": (make.address(0), make.address(0)), "phase": "Pending"}
"""A request that needs a second range, and that has lost the phase of its first."""
PINNED = {"pin": (make.address(0), make.address(2))}


def _example(
    *first: tuple[str, dict[str, Any]], then: tuple[str, str, dict[str, Any]]
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return an example for a pool of both families: requests, a pass, a further request."""
    return example(list(first), [then], True)


@pytest.mark.slow
@given(
    st.lists(st.tuples(NAMES, _requests()), max_size=12),
    st.lists(STEPS, max_size=12),
    st.booleans(),
)
# In each example, c gets another reason than b: it is in another row, or is tried after a grant.
@_example(
    IPV6_HOLDER,
    ("b", DUAL_STACK | {"age": 5.0}),
    ("c", DUAL_STACK | {"age": 1.0}),
    then=("ask", "d", {"size": 16, "age": 3.0}),
)
@_example(
    IPV6_HOLDER,
    ("b", HALF_LOST | {"age": 5.0}),
    ("c", DUAL_STACK | {"age": 1.0}),
    then=("ask", "d", {"size": 15, "age": 7.0}),
)
@_example(
    ("a", {"held_range": (make.address(1), make.address(1))}),
    ("b", PINNED | {"age": 5.0}),
    ("c", PINNED | {"age": 1.0}),
    then=("ask", "d", {"pin": (make.address(0), make.address(0)), "age": 3.0}),
)
@settings(max_examples=100, deadline=None)
def test_every_request_gets_the_result_that_it_would_get_if_all_were_tried(
    first: list[tuple[str, dict[str, Any]]],
    steps: list[tuple[str, Any, Any]],
    has_second_family: bool,
) -> None:
    passes = PoolPasses(
        make.pool(cidr=make.cidr(BITS), secondary=SECOND if has_second_family else None)
    )
    for name, request in first:
        passes.ask(name, request)
    for action, *details in [PASS, *steps, PASS]:
        if action == "ask":
            name, request = details
            passes.ask(name, request)
        elif action == "vanish":
            name, _ = details
            passes.vanish(name)
        else:
            promised, room = details
            passes.run_pass(promised, room)


def test_each_field_of_a_spec_that_affects_the_choice_changes_the_row() -> None:
    """A new field of the spec has to be added here, and to the row if it affects the choice."""
    arguments: dict[str, dict[str, Any]] = {
        "count": {"size": 3},
        "prefixLength": {"prefix": 30},
        "type": {"kind": "nodes"},
        "ipFamilyPolicy": {"asks": {"ipFamilyPolicy": "PreferDualStack"}},
        "ipFamilies": {"asks": {"ipFamilies": ["IPv6"]}},
        "pinnedRange": {"pin": ("10.40.0.1", "10.40.0.2")},
        "pinnedRanges": {
            "asks": {"pinnedRanges": [{"startAddress": "fd00::1", "endAddress": "fd00::2"}]}
        },
    }
    irrelevant = {"poolRef", "tenantClusterRef"}
    assert {field.name for field in fields(IPAllocationSpec)} == arguments.keys() | irrelevant
    rows = {make_row(make.allocation("a", **request)) for request in arguments.values()}
    # Both pinned ranges put the request into a row of its own, which has the name of the request.
    assert len({*rows, make_row(make.allocation("a"))}) == len(arguments)


FEW, MANY = 8, 240


def _fill_pool(waiting: int, asks: Sequence[dict[str, Any]]) -> Replica:
    """Return a replica whose pool has two free addresses, and `waiting` requests like `asks`."""
    lab = Lab()
    lab.server.listeners.clear()
    lab.server.add(
        "networkpools", make.pool(cidr="10.40.0.0/24", secondary={"cidr": "fd00::/120"})
    )
    for number in range(127):
        held_range = make.address(2 * number), make.address(2 * number + 1)
        lab.server.add(
            "ipallocations", make.allocation(f"held-{number:03}", held_range=held_range)
        )
    for number in range(waiting):
        request = asks[number % len(asks)]
        lab.server.add("ipallocations", make.allocation(f"waits-{number:05}", **request))
    return lab.make_replica()


DIFFERENT = [
    {"size": 7, "kind": "nodes"},
    {"size": 5},
    {"prefix": 28},
    {"size": 9, "asks": {"ipFamilyPolicy": "PreferDualStack"}},
    {"size": 300, "asks": {"ipFamilyPolicy": "RequireDualStack", "ipFamilies": ["IPv6", "IPv4"]}},
    {"size": 4, "asks": {"ipFamilyPolicy": "RequireDualStack", "ipFamilies": ["IPv6", "IPv4"]}},
]


@pytest.mark.parametrize("asks", [[{"size": 8}], DIFFERENT], ids=["alike", "different"])
async def test_a_pass_after_a_release_in_a_full_pool_tries_one_request_of_each_row(
    asks: Sequence[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(KeptHoldings, "_check_kept", lambda _self, _pool, kept: kept)
    calls, tried, take = {}, [], rangetaking.take_ranges

    def record_attempt(pool: Any, allocation: IPAllocation, spaces: Any) -> Any:
        tried.append(allocation.metadata.name)
        return take(pool, allocation, spaces)

    monkeypatch.setattr(rangetaking, "take_ranges", record_attempt)
    for waiting in (len(asks) * FEW, MANY):
        replica = _fill_pool(waiting, asks)
        for _ in range(3):
            await replica.pools.reconcile(make.key("lab"))
        phases = [a.status.phase for a in replica.caches["ipallocations"]]
        assert phases.count("Failed") == waiting
        replica.lab.server.vanish("ipallocations", "held-000")
        tried.clear()
        calls[waiting] = await calls_of(partial(replica.pools.reconcile, make.key("lab")))
        assert len(tried) == len(asks)
    few, many = calls.values()
    assert many <= 1.1 * few, calls
