"""What people read of a pass over a pool: an event for each claim, one for many at once."""

from typing import cast

from controller.eventkind import NOTE_BYTES
from controller.events import Recorder
from controller.meta import ObjectMeta
from reconcilers.integrations.clusterapi import api
from reconcilers.integrations.clusterapi.api import InClusterIPPool, IPAddressClaim
from reconcilers.integrations.clusterapi.claimevents import (
    MOST_SINGLE,
    MOST_SINGLE_PER_MINUTE,
    ClaimEvents,
    Reported,
)
from reconcilers.reporting.conditions import READY, Finding
from tests.clock import VirtualClock
from tests.reconcilers.lab import Recorded

POOL = InClusterIPPool(ObjectMeta(name="p", namespace="b"))


def told(name: str, *, served: bool = True) -> Reported:
    reason = api.ADDRESS_ALLOCATED if served else api.POOL_EXHAUSTED
    claim = IPAddressClaim(ObjectMeta(name=name, namespace="b"))
    return claim, Finding(READY, served, reason, f"the words about {name}")


class Reader:
    """Looks at the events that passes lead to."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.recorded = Recorded()
        self._events = ClaimEvents(
            cast("Recorder", self.recorded), self.clock, api.claims("v1beta2")
        )

    def after(self, *some: Reported) -> list[tuple[str, str]]:
        """Return the kinds and names that one pass made events about."""
        self.recorded.subjects.clear()
        self._events.record(api.IN_CLUSTER_IP_POOL, POOL, some)
        return self.recorded.subjects


def test_a_few_claims_get_an_event_each() -> None:
    reader = Reader()
    assert reader.after(told("a"), told("b", served=False)) == [
        ("IPAddressClaim", "a"),
        ("IPAddressClaim", "b"),
    ]
    assert reader.recorded.events == [
        ("Normal", "AddressAllocated", "the words about a"),
        ("Warning", "PoolExhausted", "the words about b"),
    ]


def test_many_claims_share_an_event_about_their_pool() -> None:
    reader = Reader()
    some = [told(f"c{one}") for one in range(MOST_SINGLE + 1)]
    assert reader.after(*some) == [("InClusterIPPool", "p")]
    kind, reason, note = reader.recorded.events[0]
    assert (kind, reason) == ("Normal", "AddressAllocated")
    assert note.startswith("9 IPAddressClaims: b/c0: the words about c0; b/c1: ")


def test_a_shared_event_is_no_longer_than_the_server_takes() -> None:
    reader = Reader()
    reader.after(*(told(f"claim-{one}") for one in range(256)))
    assert len(reader.recorded.events[0][2].encode()) <= NOTE_BYTES


async def test_many_small_passes_within_a_minute_share_events_too() -> None:
    reader = Reader()
    for one in range(MOST_SINGLE_PER_MINUTE):
        assert reader.after(told(f"c{one}")) == [("IPAddressClaim", f"c{one}")]
    assert reader.after(told("late")) == [("InClusterIPPool", "p")]
    await reader.clock.advance(61)
    assert reader.after(told("later")) == [("IPAddressClaim", "later")]
