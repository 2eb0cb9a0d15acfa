"""After faults between controllers and clusters, both clusters reach the expected state.

No two allocations ever held one address. Each address is free or held by an allocation. No
allocation waits that fits. Nothing is left of deleted objects. MetalLB has the ranges of the
management cluster. Then the controllers send no more requests.
"""

import os
import random
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta

import anyio
import pytest

from controller.meta import Key
from envtest.faults import (
    Call,
    CutAnswer,
    DroppedEvents,
    LateAnswer,
    LateRequest,
    LostAnswer,
    Match,
    Pause,
    Proxy,
    RefusedConnection,
    TruncatedEvent,
    insert_expired_event,
    refuse_as_expired,
    refuse_as_internal_error,
    refuse_as_overloaded,
    refuse_as_unavailable,
    silence_watch,
)
from envtest.faults.fault import Fault
from reconcilers.api.resources import IP_ALLOCATION, TENANT_CLUSTER
from tests.faults.estate import CLUSTER, HOME, SPEED, Estate, run_estate
from tests.polling import SECONDS

pytestmark = pytest.mark.slow

WINDOWS = 6
"""How many spans of 75 seconds `_wait_for_rest` observes at most."""
# Two by default, more where CI asks for more seeds of the simulation; each takes a quarter minute.
SEEDS = max(2, min(4, int(os.environ.get("BUTLER_IPAM_TEST_SEEDS", "100")) // 400))
_GAPS: dict[str, Fault] = {
    "events that are lost": DroppedEvents(events=1, dropped=2),
    "an expired revision, as an event": insert_expired_event(events=1),
    "an expired revision, as an answer": refuse_as_expired(),
    "a silent connection": silence_watch(events=1),
    "half an event": TruncatedEvent(),
}
"""Faults of a watch, after which it misses events."""


@contextmanager
def _random_faults(proxy: Proxy) -> Iterator[None]:
    """Inject each kind of fault into some of the requests, at random."""
    faults: list[tuple[Fault, float]] = [
        (refuse_as_internal_error(), 0.05),
        (refuse_as_unavailable(), 0.04),
        (refuse_as_overloaded(), 0.02),
        (RefusedConnection(), 0.04),
        (LostAnswer(), 0.06),
        (CutAnswer(), 0.03),
        (LateRequest(Pause(0.1)), 0.05),
        (LateAnswer(Pause(0.05)), 0.1),
    ]
    with ExitStack() as stack:
        for fault, chance in faults:
            stack.enter_context(proxy.inject(fault, Match(chance=chance)))
        for gap in _GAPS.values():
            stack.enter_context(proxy.inject(gap, Match(verb="watch", chance=0.15)))
        yield


async def _change_at_random(estate: Estate[Proxy], seed: int) -> None:
    """Create and delete allocations, restart processes and delete the cluster, all at random."""
    choices = random.Random(seed)
    names: list[str] = []
    estate.start_process()
    estate.start_process()
    await estate.create_cluster()
    cluster_exists = True
    for step in range(24):
        await estate.create_allocation(f"n{step}", count=choices.randint(1, 3))
        names.append(f"n{step}")
        dice = choices.random()
        if dice < 0.25 and len(names) > 2:
            name = names.pop(choices.randrange(len(names)))
            await estate.delete(IP_ALLOCATION, Key(HOME, name))
        elif dice < 0.45:
            estate.kill_process(choices.randrange(len(estate.processes)))
            estate.start_process(timedelta(seconds=choices.choice([-600, 0, 600])))
        elif dice < 0.55 and cluster_exists:
            await estate.delete(TENANT_CLUSTER, CLUSTER)
            cluster_exists = False
        with anyio.move_on_after(choices.choice((0.05, 0.1, 0.2))):
            await estate.management.calls.wait(len(estate.management.calls) + 40)


def _list_calls_since(estate: Estate[Proxy], since: int) -> Iterator[Call]:
    """Yield the requests to the management cluster from an index on, without watches."""
    return (call for call in estate.management.calls[since:] if call.verb != "watch")


async def _wait_for_rest(estate: Estate[Proxy]) -> None:
    """Wait until the controllers send nothing but watches for 75 seconds of their time.

    Periodic repairs, such as those of labels, find nothing to do any more.

    Raises:
        AssertionError: they still sent requests in each of WINDOWS such times.
    """
    await estate.witness.wait_while(estate.witness.describe_open_promises)
    sent: list[str] = []
    for _ in range(WINDOWS):
        since = len(estate.management.calls)
        with anyio.move_on_after(75 / SPEED):
            await anyio.sleep_forever()
        sent = [
            f"{call.method} {call.path} {call.body[:200]!r}"
            for call in _list_calls_since(estate, since)
        ]
        if not sent:
            return
    raise AssertionError(f"no rest: {sent}")


@pytest.mark.long
@pytest.mark.parametrize("seed", range(SEEDS))
async def test_after_random_faults_everything_is_right_and_nothing_more_is_sent(seed: int) -> None:
    async with run_estate(seed) as estate:
        with _random_faults(estate.management), _random_faults(estate.tenant):
            await _change_at_random(estate, seed)
        await estate.witness.wait_while(estate.witness.describe_unsettled)
        await _wait_for_rest(estate)
        assert estate.witness.describe_unsettled() == ""
        assert estate.witness.overlaps == []


@pytest.mark.long
async def test_changes_during_a_gap_of_the_watches_are_served() -> None:
    async with run_estate() as estate:
        for gap, fault in _GAPS.items():
            with estate.management.inject(fault, Match(verb="watch", times=12)) as injected:
                estate.start_process()
                await estate.create_cluster()
                for number in range(6):
                    await estate.create_allocation(f"n{number}")
                with anyio.fail_after(SECONDS):
                    await injected.affected_calls.wait()
                await estate.witness.wait_while(estate.witness.describe_unsettled)
            await estate.delete(IP_ALLOCATION, Key(HOME, "n3"))
            await estate.witness.wait_while(estate.witness.describe_unsettled)
            assert estate.witness.overlaps == [], gap
            # The next gap starts with an empty pool and a new process.
            for number in (0, 1, 2, 4, 5):
                await estate.delete(IP_ALLOCATION, Key(HOME, f"n{number}"))
            await estate.delete(TENANT_CLUSTER, CLUSTER)
            await estate.witness.wait_while(estate.witness.describe_unsettled)
            estate.kill_process(0)


@pytest.mark.parametrize("failure", ["refuses", "is silent"])
async def test_a_tenant_that_fails_keeps_its_addresses_until_they_are_withdrawn_from_it(
    failure: str,
) -> None:
    fault: Fault = RefusedConnection() if failure == "refuses" else LateAnswer(Pause(3.0))
    async with run_estate() as estate:
        estate.start_process()
        estate.start_process()
        await estate.create_cluster()
        await estate.witness.wait_while(estate.witness.describe_unsettled)
        with estate.tenant.inject(fault) as outage:
            await estate.delete(TENANT_CLUSTER, CLUSTER)
            await estate.create_allocation("neighbour", count=8)
            with anyio.fail_after(SECONDS):
                await outage.affected_calls.wait(2)
            balancer = estate.witness.caches["ipallocations"].get(Key(HOME, "team-a-lb"))
            assert balancer is not None, "its range is still the tenant's"
        await estate.witness.wait_while(estate.witness.describe_unsettled)
        assert estate.witness.caches["tenantclusters"].get(CLUSTER) is None
        assert estate.witness.overlaps == []


@pytest.mark.long
async def test_replicas_whose_clocks_are_hours_apart_agree_and_stop_writing() -> None:
    async with run_estate() as estate:
        estate.start_process(timedelta(hours=5))
        estate.start_process(timedelta(hours=-5))
        await estate.create_cluster()
        for number in range(6):
            await estate.create_allocation(f"n{number}", count=2)
        await estate.witness.wait_while(estate.witness.describe_unsettled)
        await _wait_for_rest(estate)
        assert estate.witness.overlaps == []
