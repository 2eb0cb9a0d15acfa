"""A storm: two live replicas are killed and frozen while other platforms' objects come and go.

    KUBEBUILDER_ASSETS=$PWD/.real/newest python -m tests.contract.storm kubermatic 0 --to 20

A seed decides the order in which replicas are killed or frozen, for how long, and what people do.
Both replicas run without leader election, so both work all the time. A seed repeats the choices
and not the moments, because processes are scheduled differently each time. So a finding may need
several runs of its seed.
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
from tests.storm.parts import make_replica_program, make_replica_target

DATA = Path(__file__).parents[2] / "data"
SETTLE_SECONDS = 240.0
"""After the last fault until every object has its addresses; then until all are deleted."""
WRITES, WRITE_SECONDS = 10, 20.0
"""How many writes of allocations come between two faults, or else how many seconds."""
FLAGS = ("--metrics-bind-address=0", "--health-probe-bind-address=0")

log = get_logger(__name__)
Action = Callable[[], Awaitable[None]]


class Platform(Protocol):
    """What people do with the objects of a platform: its clusters or machines, and their pools."""

    integration: str
    record: Record

    async def prepare(self, many: int) -> None:
        """Create `many` clusters or machines, and then the pools that they wait for."""

    def list_actions_by_person(self) -> Sequence[Sequence[Action]]:
        """Return the actions of each person; a frequent action is listed several times."""

    async def wait_until_settled(self) -> None:
        """Undo changes of pools and pauses, and wait until every object has its addresses.

        Raises:
            AssertionError: an object still lacks some after SETTLE_SECONDS.
        """

    async def delete_all(self) -> None:
        """Delete all clusters or machines, and wait until their addresses are handed out again.

        Raises:
            AssertionError: they are not after SETTLE_SECONDS.
        """


@dataclass(frozen=True)
class Report:
    """The result of a storm.

    Args:
        faults: the replicas that were killed or frozen, in order, as sentences.
        actions: how many actions people took.
        writes: how many writes of allocations the watch reported.
        most_holders: the most allocations that held addresses at the same time.
        seconds: from the last fault until every object had its addresses.
        findings: addresses that two allocations held at once, as sentences.
    """

    faults: Sequence[str]
    actions: int
    writes: int
    most_holders: int
    seconds: float
    findings: Sequence[str]


@dataclass(frozen=True)
class StormSettings:
    """The settings of a storm.

    Args:
        seed: of all random choices.
        rounds: how often each replica is killed or frozen.
        many: how many clusters or machines wait before the first pool is created.
        busy: whether people act meanwhile.
    """

    seed: int
    rounds: int = 2
    many: int = 0
    busy: bool = True


async def play_storm(
    make_platform: Callable[[httpx.AsyncClient, random.Random], Platform],
    folder: Path,
    settings: StormSettings,
) -> Report:
    """Play a storm on a server of its own.

    Args:
        make_platform: returns the platform of a server, with its random choices.
        folder: for kubeconfigs.
        settings: the seed, and how much happens.

    Raises:
        AssertionError: afterwards an object lacks its addresses.
    """
    choices = random.Random(settings.seed)
    faults: list[str] = []
    async with (
        ControlPlane.start(namespace_controller=True, garbage_collector=True) as plane,
        administrator(plane) as admin,
        anyio.create_task_group() as group,
    ):
        admin.timeout = httpx.Timeout(SETTLE_SECONDS)  # a thousand may be deleted at once
        platform = make_platform(admin, random.Random(choices.random()))
        await plane.install_crds(crd.build_crds())
        await plane.install_crds(DATA / platform.integration / "crds.yaml")
        kubeconfig = await under_shipped_roles(
            plane, admin, where=folder, integration=platform.integration
        )
        group.start_soon(platform.record.follow, admin)
        flags = (f"--integration={platform.integration}", *FLAGS)
        replicas = [make_replica_program(kubeconfig, *flags) for _ in range(2)]
        for program in replicas:
            group.start_soon(program.run)
        await platform.prepare(settings.many)
        people = [
            _Person(random.Random(choices.random()), actions)
            for actions in platform.list_actions_by_person()
        ]
        async with anyio.create_task_group() as crowd:
            if settings.busy:
                for person in people:
                    crowd.start_soon(person.act)
            for _ in range(settings.rounds):
                for number in choices.sample(range(2), 2):
                    await platform.record.wait_for_writes(WRITES, WRITE_SECONDS)
                    part = make_replica_target(replicas[number], number + 1)
                    faults.append(await part.strike(choices, freeze=choices.random() < 0.6))
                    log.info("fault", what=faults[-1])
            crowd.cancel_scope.cancel()
        settling_since = time.monotonic()
        await platform.wait_until_settled()
        seconds = time.monotonic() - settling_since
        await platform.delete_all()
        await platform.record.wait_until_noted(admin)
        group.cancel_scope.cancel()
    count, record = sum(person.action_count for person in people), platform.record
    return Report(
        faults,
        actions=count,
        writes=record.writes,
        most_holders=record.most_holders,
        seconds=seconds,
        findings=record.findings,
    )


class _Person:
    """A person who takes random actions and does not wait for their effects.

    Args:
        choices: choose the next action and the pause before it.
        actions: of one request or a few each.
    """

    def __init__(self, choices: random.Random, actions: Sequence[Action]) -> None:
        self._choices = choices
        self._actions = actions
        self.action_count = 0

    async def act(self) -> None:
        """Take one action after the other until cancelled; an action is never interrupted."""
        while True:
            with anyio.CancelScope(shield=True):
                await self._choices.choice(self._actions)()
            self.action_count += 1
            await anyio.sleep(self._choices.uniform(0.02, 0.2))
