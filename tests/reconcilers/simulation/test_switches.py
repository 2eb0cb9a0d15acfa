"""Each safety rule, switched off: the simulation must notice. A rule nothing misses is none."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from controller.cache import Cache
from controller.meta import Object
from reconcilers import ranges
from reconcilers.api.ipallocation import ALLOCATED, IPAllocation
from reconcilers.api.networkpool import NetworkPool
from reconcilers.networkpool import departure, protocol, reconciler
from reconcilers.networkpool.view import View
from tests.reconcilers.simulation.chaos import Plan, Run
from tests.reconcilers.simulation.world import POOLS, Json, World


@dataclass(frozen=True)
class Switch:
    """A rule that can be switched off.

    Args:
        off: switches it off.
        plan: under which the simulation has to notice.
    """

    off: Callable[[pytest.MonkeyPatch], None]
    plan: Plan


def _no_fence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reconciler, "memory", lambda pool: protocol.memory(pool) or 0)


def _promises_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    def settle(pool: NetworkPool, view: View) -> protocol.Settlement:
        return protocol.Settlement((), protocol.memory(pool) or 0)

    for module in (protocol, reconciler, departure):
        monkeypatch.setattr(module, "settle", settle)


def _position_counts_own_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    own = Cache.own

    def remember(self: Cache[Any], obj: Object) -> None:
        own(self, obj)
        self.position = max(self.position, obj.metadata.revision)

    monkeypatch.setattr(Cache, "own", remember)


def _pools_written_without_precondition(monkeypatch: pytest.MonkeyPatch) -> None:
    patch = World.patch

    def blind(
        self: World,
        plural: str,
        name: str,
        body: Json,
        *,
        status: bool = False,
        guarded: bool = True,
    ) -> tuple[int, Json]:
        if plural == POOLS:
            kept = {k: v for k, v in body.get("metadata", {}).items() if k == "finalizers"}
            body, guarded = {**body, "metadata": kept}, False
        return patch(self, plural, name, body, status=status, guarded=guarded)

    monkeypatch.setattr(World, "patch", blind)


def _held_in_phase_allocated_only(monkeypatch: pytest.MonkeyPatch) -> None:
    held = ranges.held

    def lax(allocation: IPAllocation) -> object:
        return held(allocation) if allocation.status.phase == ALLOCATED else None

    monkeypatch.setattr(ranges, "held", lax)


_QUIET = Plan(calm=False, resets=False, touches=False, pool_cycles=False, wipes=False)

SWITCHES = {
    "a pool without memory is fenced": Switch(
        _no_fence,
        Plan(calm=False, resets=False, touches=False, pool_cycles=False, wipes=True),
    ),
    "a promise is kept until it is settled": Switch(_promises_forgotten, _QUIET),
    "own answers never move the position": Switch(_position_counts_own_answers, _QUIET),
    "a pool is written at the version it was read at": Switch(
        _pools_written_without_precondition, _QUIET
    ),
    "a range is held in whatever phase": Switch(_held_in_phase_allocated_only, _QUIET),
}


@pytest.mark.parametrize("rule", SWITCHES)
def test_without_the_rule_two_allocations_come_to_hold_one_address(
    rule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    switch = SWITCHES[rule]
    switch.off(monkeypatch)
    for seed in range(3000):
        if Run(seed, switch.plan).play() is not None:
            return
    pytest.fail(f"3000 seeds and no overlap without the rule that {rule}")
