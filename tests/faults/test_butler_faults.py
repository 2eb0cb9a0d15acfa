"""Whatever fails between controllers and clusters: once it works again, all is as it should be.

No two allocations ever held one address; every address is either free or held by an allocation; no
allocation waits that fits; nothing is left of what was deleted; MetalLB has what the management
cluster says; and then nothing is sent any more.
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
    expired_event,
    half_open,
    internal_error,
    refuse_as_expired,
    too_many_requests,
    unavailable,
)
from envtest.faults.fault import Fault
from reconcilers.api.resources import IP_ALLOCATION, TENANT_CLUSTER
from tests.faults.estate import CLUSTER, HOME, SPEED, Estate, estate
from tests.polling import SECONDS

pytestmark = pytest.mark.slow

WINDOWS = 6
# Two by default, more where CI asks for more seeds of the simulation; each takes a quarter minute.
SEEDS = max(2, min(4, int(os.environ.get("BUTLER_IPAM_TEST_SEEDS", "100")) // 400))
_GAPS: dict[str, Fault] = {
    "events that are lost": DroppedEvents(events=1, dropped=2),
    "an expired revision, as an event": expired_event(events=1),
    "an expired revision, as an answer": refuse_as_expired(),
    "a silent connection": half_open(events=1),
    "half an event": TruncatedEvent(),
}


@contextmanager
def _random_faults(proxy: Proxy) -> Iterator[None]:
    """Let every kind of request fail in every way, now and then."""
    faults: list[tuple[Fault, float]] = [
        (internal_error(), 0.05),
        (unavailable(), 0.04),
        (too_many_requests(), 0.02),
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


async def _play_seed(here: Estate[Proxy], seed: int) -> None:
    """Let a seed ask, delete, restart, and cut the tenant off; in the end a few are left."""
    dice = random.Random(seed)
    names: list[str] = []
    here.start()
    here.start()
    await here.create_cluster()
    founded = True
    for step in range(24):
        await here.create_allocation(f"n{step}", count=dice.randint(1, 3))
        names.append(f"n{step}")
        case = dice.random()
        if case < 0.25 and len(names) > 2:
            gone = names.pop(dice.randrange(len(names)))
            await here.delete(IP_ALLOCATION, Key(HOME, gone))
        elif case < 0.45:
            here.kill(dice.randrange(len(here.running)))
            here.start(timedelta(seconds=dice.choice([-600, 0, 600])))
        elif case < 0.55 and founded:
            await here.delete(TENANT_CLUSTER, CLUSTER)
            founded = False
        with anyio.move_on_after(dice.choice((0.05, 0.1, 0.2))):
            await here.management.calls.wait(len(here.management.calls) + 40)


def _list_calls(here: Estate[Proxy], since: int) -> Iterator[Call]:
    """Yield the requests of the controllers to the management cluster, but for watches."""
    return (call for call in here.management.calls[since:] if call.verb != "watch")


async def _rests(here: Estate[Proxy]) -> None:
    """Before long they send nothing but watches, for more than a minute of their time.

    What is done once in a while and once for all, as repairing labels, is over by then.
    """
    await here.witness.until(here.witness.promises_left)
    sent: list[str] = []
    for _ in range(WINDOWS):
        since = len(here.management.calls)
        with anyio.move_on_after(75 / SPEED):
            await anyio.sleep_forever()
        sent = [
            f"{call.method} {call.path} {call.body[:200]!r}" for call in _list_calls(here, since)
        ]
        if not sent:
            return
    raise AssertionError(f"no rest: {sent}")


@pytest.mark.long
@pytest.mark.parametrize("seed", range(SEEDS))
async def test_after_random_faults_everything_is_right_and_nothing_more_is_sent(seed: int) -> None:
    async with estate(seed) as here:
        with _random_faults(here.management), _random_faults(here.tenant):
            await _play_seed(here, seed)
        await here.witness.until(here.witness.describe_unsettled)
        await _rests(here)
        assert here.witness.describe_unsettled() == ""
        assert here.witness.clashes == []


@pytest.mark.long
async def test_what_happened_in_a_gap_of_the_watches_is_served() -> None:
    async with estate() as here:
        for gap, fault in _GAPS.items():
            with here.management.inject(fault, Match(verb="watch", times=12)) as struck:
                here.start()
                await here.create_cluster()
                for number in range(6):
                    await here.create_allocation(f"n{number}")
                with anyio.fail_after(SECONDS):
                    await struck.struck.wait()
                await here.witness.until(here.witness.describe_unsettled)
            await here.delete(IP_ALLOCATION, Key(HOME, "n3"))
            await here.witness.until(here.witness.describe_unsettled)
            assert here.witness.clashes == [], gap
            # The next gap finds an empty pool, and a process that has seen nothing yet.
            for number in (0, 1, 2, 4, 5):
                await here.delete(IP_ALLOCATION, Key(HOME, f"n{number}"))
            await here.delete(TENANT_CLUSTER, CLUSTER)
            await here.witness.until(here.witness.describe_unsettled)
            here.kill(0)


@pytest.mark.parametrize("how", ["refuses", "is silent"])
async def test_a_tenant_that_fails_keeps_its_addresses_until_they_are_withdrawn_from_it(
    how: str,
) -> None:
    fault: Fault = RefusedConnection() if how == "refuses" else LateAnswer(Pause(3.0))
    async with estate() as here:
        here.start()
        here.start()
        await here.create_cluster()
        await here.witness.until(here.witness.describe_unsettled)
        with here.tenant.inject(fault) as outage:
            await here.delete(TENANT_CLUSTER, CLUSTER)
            await here.create_allocation("neighbour", count=8)
            with anyio.fail_after(SECONDS):
                await outage.struck.wait(2)
            balancer = here.witness.caches["ipallocations"].get(Key(HOME, "team-a-lb"))
            assert balancer is not None, "its range is still the tenant's"
        await here.witness.until(here.witness.describe_unsettled)
        assert here.witness.caches["tenantclusters"].get(CLUSTER) is None
        assert here.witness.clashes == []


@pytest.mark.long
async def test_replicas_whose_clocks_are_hours_apart_agree_and_stop_writing() -> None:
    async with estate() as here:
        here.start(timedelta(hours=5))
        here.start(timedelta(hours=-5))
        await here.create_cluster()
        for number in range(6):
            await here.create_allocation(f"n{number}", count=2)
        await here.witness.until(here.witness.describe_unsettled)
        await _rests(here)
        assert here.witness.clashes == []
