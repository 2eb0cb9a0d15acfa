"""Two API servers on one etcd, behind one address: what one of them tells is late.

Each connection leads to one of them in turn, so that a list comes from one and the watch after it
from the other; what is written through one is told by the other late, or when it wakes up.
"""

import random

import anyio
import pytest

from controller.meta import Key
from envtest import ControlPlane
from envtest.plane import ControlPlane as Plane
from reconcilers.api.resources import IP_ALLOCATION
from tests.faults.estate import HOME, LARGE, LIMIT, PACE, Estate, SwiftClock, bare_estate
from tests.faults.parts import Elsewhere, place, taken_apart
from tests.faults.pipes import HOST, Pipe

pytestmark = pytest.mark.slow

ASKED, BETWEEN = 60, 6
BEHIND = 0.5


async def test_nobody_is_served_twice_and_everybody_once_whichever_server_they_meet() -> None:
    async with (
        ControlPlane.start() as plane,
        taken_apart(plane) as parts,
        parts.second_apiserver() as second,
        Pipe.before(place(plane.url), place(second.plane.url)) as pipe,
        bare_estate(plane, Elsewhere(plane, f"https://{HOST}:{pipe.port}"), LARGE) as here,
    ):
        for _ in range(2):
            here.start(clock=SwiftClock(speed=PACE))
        await here.found()
        second.etcd.late = BEHIND
        await _come_and_go(here, pipe, range(ASKED // 2))
        with second.frozen():
            await _come_and_go(here, pipe, range(ASKED // 2, ASKED))
        await here.witness.until(here.witness.unsettled)
        met = {target: pipe.carried.count(target) for target in set(pipe.carried)}
        assert len(met) == 2, met
        assert here.witness.clashes == []


async def _come_and_go(here: Estate[Plane], pipe: Pipe, numbers: range) -> None:
    """Ask, and delete about every third of those who asked before.

    Now and then everybody has to connect anew, to the other server perhaps.
    """
    dice = random.Random(numbers.start)
    for number in numbers:
        await here.ask(f"n{number}", count=1 + number % 3)
        if number % 3 == 2:
            await here.delete(IP_ALLOCATION, Key(HOME, f"n{number - dice.choice((1, 2))}"))
        if number % BETWEEN == 0:
            before = len(pipe.carried)
            pipe.cut()
            with anyio.fail_after(LIMIT):
                await pipe.carried.wait(before + 4)
