"""The events of a pass over a pool: one for each claim, or one about the pool for many claims."""

from typing import cast

from controller.eventkind import NOTE_BYTES
from controller.events import Recorder
from controller.meta import ObjectMeta
from reconcilers.integrations.clusterapi import api
from reconcilers.integrations.clusterapi.api import InClusterIPPool, IPAddressClaim
from reconcilers.integrations.core.claimevents import (
    MOST_SINGLE,
    MOST_SINGLE_PER_MINUTE,
    ClaimEvents,
    ClaimReport,
)
from reconcilers.integrations.core.claimproblems import ADDRESS_ALLOCATED, POOL_EXHAUSTED
from reconcilers.reporting.conditions import READY, ConditionFinding
from tests.clock import VirtualClock
from tests.reconcilers.lab import Recorded

POOL = InClusterIPPool(ObjectMeta(name="p", namespace="b"))


def make_report(name: str, *, is_served: bool = True) -> ClaimReport[IPAddressClaim]:
    """Return a claim, and the finding that it has an address or that the pool has none left."""
    reason = ADDRESS_ALLOCATED if is_served else POOL_EXHAUSTED
    claim = IPAddressClaim(ObjectMeta(name=name, namespace="b"))
    message = f"the words about {name}"
    return ClaimReport(claim, ConditionFinding(READY, is_served, reason=reason, message=message))


class EventPasses:
    """Passes over POOL that record events; a test advances the clock between them.

    Attributes:
        recorded: the events so far; `recorded.subjects` are those of the last pass only.
    """

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.recorded = Recorded()
        self._events = ClaimEvents(
            cast("Recorder", self.recorded), self.clock, api.get_claim_kind("v1beta2")
        )

    def pass_over_pool(self, *reports: ClaimReport[IPAddressClaim]) -> list[tuple[str, str]]:
        """Record what a pass found about claims.

        Returns:
            Kind and name of the object of each event of this pass.
        """
        self.recorded.subjects.clear()
        self._events.record(api.IN_CLUSTER_IP_POOL, POOL, reports)
        return self.recorded.subjects


def test_a_few_claims_get_an_event_each() -> None:
    passes = EventPasses()
    assert passes.pass_over_pool(make_report("a"), make_report("b", is_served=False)) == [
        ("IPAddressClaim", "a"),
        ("IPAddressClaim", "b"),
    ]
    assert passes.recorded.events == [
        ("Normal", "AddressAllocated", "the words about a"),
        ("Warning", "PoolExhausted", "the words about b"),
    ]


def test_many_claims_share_an_event_about_their_pool() -> None:
    passes = EventPasses()
    reports = [make_report(f"c{number}") for number in range(MOST_SINGLE + 1)]
    assert passes.pass_over_pool(*reports) == [("InClusterIPPool", "p")]
    kind, reason, note = passes.recorded.events[0]
    assert (kind, reason) == ("Normal", "AddressAllocated")
    assert note.startswith("9 IPAddressClaims: b/c0: the words about c0; b/c1: ")


def test_the_note_of_a_shared_event_is_not_longer_than_the_api_server_accepts() -> None:
    passes = EventPasses()
    passes.pass_over_pool(*(make_report(f"claim-{number}") for number in range(256)))
    assert len(passes.recorded.events[0][2].encode()) <= NOTE_BYTES


async def test_many_small_passes_within_a_minute_share_events_too() -> None:
    passes = EventPasses()
    for number in range(MOST_SINGLE_PER_MINUTE):
        assert passes.pass_over_pool(make_report(f"c{number}")) == [
            ("IPAddressClaim", f"c{number}")
        ]
    assert passes.pass_over_pool(make_report("late")) == [("InClusterIPPool", "p")]
    await passes.clock.advance(61)
    assert passes.pass_over_pool(make_report("later")) == [("IPAddressClaim", "later")]
