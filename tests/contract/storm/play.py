"""A storm: two live replicas are killed and frozen while other platforms' objects come and go.

    KUBEBUILDER_ASSETS=$PWD/.real/newest python -m tests.contract.storm kubermatic 0 --to 20

A seed decides when which replica is killed or frozen, for how long, and what people do. Both
replicas work all the time, as none asks for a lease. Real processes keep no time, so a seed
repeats the choices and not the moments: a finding may need several runs of its seed.
"""

import random
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import anyio
import httpx

from controller.loggers import get_logger
from envtest import ControlPlane
from reconcilers.api import crd
from tests.contract.conftest import administrator
from tests.contract.product import under_shipped_roles
from tests.contract.storm.record import Record
from tests.storm.parts import replica, replica_part

DATA = Path(__file__).parents[2] / "data"
CALM_SECONDS = 240.0
"""Within which all is well after the last fault."""
WRITES, WITHIN = 10, 20.0
"""The allocations' writes between two faults, for which so many seconds are waited."""
FLAGS = ("--metrics-bind-address=0", "--health-probe-bind-address=0")

log = get_logger(__name__)
Deed = Callable[[], Awaitable[None]]


class Scene(Protocol):
    """What people do with the objects of a platform."""

    integration: str
    record: Record

    async def prepare(self, many: int) -> None:
        """Make what is there before; what hands out addresses comes after so many objects."""

    def people(self) -> Sequence[Sequence[Deed]]:
        """Return the deeds of each person who acts at the same time, frequent ones often."""

    async def calm(self) -> None:
        """Undo what keeps requests waiting; wait until all is as it should be.

        Raises:
            AssertionError: it does not come to that.
        """

    async def leave(self) -> None:
        """Delete all who ask; wait until everything is free.

        Raises:
            AssertionError: it does not come to that.
        """


@dataclass(frozen=True)
class Report:
    """What came of a storm.

    Args:
        faults: what was done to whom, in order.
        done: what people did.
        events: how many writes of allocations were seen.
        most: how many held something at once.
        seconds: from the last fault until all was well.
        findings: what was held twice; empty if all was well.
    """

    faults: Sequence[str]
    done: int
    events: int
    most: int
    seconds: float
    findings: Sequence[str]


@dataclass(frozen=True)
class Asked:
    """A storm to be played.

    Args:
        seed: decides everything that is chosen.
        rounds: how often each replica is killed or frozen.
        many: how many objects wait before there is anything to hand out.
        busy: whether people act meanwhile.
    """

    seed: int
    rounds: int = 2
    many: int = 0
    busy: bool = True


async def storm(
    scene: Callable[[httpx.AsyncClient, random.Random], Scene], folder: Path, asked: Asked
) -> Report:
    """Play a storm.

    Raises:
        AssertionError: afterwards not all was as it should be.
    """
    choices = random.Random(asked.seed)
    faults: list[str] = []
    async with (
        ControlPlane.start(namespace_controller=True, garbage_collector=True) as plane,
        administrator(plane) as admin,
        anyio.create_task_group() as group,
    ):
        admin.timeout = httpx.Timeout(CALM_SECONDS)  # a thousand may be deleted at once
        here = scene(admin, random.Random(choices.random()))
        await plane.install_crds(crd.crds())
        await plane.install_crds(DATA / here.integration / "crds.yaml")
        kubeconfig = await under_shipped_roles(
            plane, admin, where=folder, integration=here.integration
        )
        group.start_soon(here.record.follow, admin)
        flags = (f"--integration={here.integration}", *FLAGS)
        replicas = [replica(kubeconfig, *flags) for _ in range(2)]
        for program in replicas:
            group.start_soon(program.run)
        await here.prepare(asked.many)
        people = [_People(random.Random(choices.random()), deeds) for deeds in here.people()]
        async with anyio.create_task_group() as crowd:
            if asked.busy:
                for person in people:
                    crowd.start_soon(person.act)
            for _ in range(asked.rounds):
                for number in choices.sample(range(2), 2):
                    await here.record.grows_by(WRITES, WITHIN)
                    part = replica_part(replicas[number], number + 1)
                    faults.append(await part.strike(choices, freeze=choices.random() < 0.6))
                    log.info("fault", what=faults[-1])
            crowd.cancel_scope.cancel()
        began = time.monotonic()
        await here.calm()
        seconds = time.monotonic() - began
        await here.leave()
        await here.record.wait_until_noted(admin)
        group.cancel_scope.cancel()
    done, record = sum(person.done for person in people), here.record
    return Report(
        faults,
        done,
        events=record.events,
        most=record.most,
        seconds=seconds,
        findings=record.findings,
    )


class _People:
    """Those who do not wait for anything.

    Args:
        choices: what they do and when.
        deeds: what they may do; each is one request or a few.
    """

    def __init__(self, choices: random.Random, deeds: Sequence[Deed]) -> None:
        self._choices = choices
        self._deeds = deeds
        self.done = 0

    async def act(self) -> None:
        """Do one thing after the other; one that was begun is ended."""
        while True:
            with anyio.CancelScope(shield=True):
                await self._choices.choice(self._deeds)()
            self.done += 1
            await anyio.sleep(self._choices.uniform(0.02, 0.2))
