"""The tenants' simulation with a balancer that is not MetalLB: the port keeps its promises alone.

Each rule of the port is switched off in the adapter, and a scene then gives an address away.
"""

import asyncio
from dataclasses import replace
from functools import partial

import anyio
import pytest

from tests.reconcilers.memorybalancer.adapter import Rules
from tests.reconcilers.simulation import tenantscenes as scenes
from tests.reconcilers.simulation.memorytenancy import MemoryTenancy, MemoryYard
from tests.reconcilers.simulation.seeds import PARTS, SEEDS, check_part, tenant_faults
from tests.reconcilers.simulation.switch import check_scene
from tests.reconcilers.simulation.tenancy import SETTINGS, WAITING, Faults
from tests.reconcilers.simulation.tenantrules import ignore_losses, keep_waits_across_states
from tests.reconcilers.simulation.tenantscenes import Scene, play_scene

GIVEN = "may be given away"
WAIT = 30.0
"""Seconds for which a balancer that shows nothing is waited for."""

SWITCHES: dict[str, Scene] = {
    "refuses_older_views": scenes.project_old_view,
    "creates_empty": scenes.release_during_creation,
    "confirms": scenes.release_during_awaited_creation,
    "writes_what_was_read": scenes.late_projection,
    "waits_for_mark": scenes.release_before_projection,
    "looks_for_range": scenes.offer_again_during_release,
    "waits_for_process": scenes.release_during_pause,
    "keeps_ranges": scenes.acknowledge_shown_address,
}


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
@tenant_faults
def test_no_address_is_offered_wrongly_and_every_one_is_released(
    faults: Faults, options: str, part: int
) -> None:
    model = partial(MemoryTenancy, faults=faults)
    check_part(model, SEEDS // 8, part=part, again=f"balancer {{}} {options}")


@pytest.mark.parametrize("rule", SWITCHES)
def test_without_a_rule_of_the_port_a_scene_ends_badly_and_with_it_well(rule: str) -> None:
    def switch_off(patch: pytest.MonkeyPatch) -> None:
        patch.setattr(MemoryTenancy, "rules", Rules(**{rule: False}))

    check_scene(switch_off, lambda: play_scene(SWITCHES[rule], MemoryYard), sign=GIVEN, rule=rule)


def test_a_service_that_takes_an_address_during_its_withdrawal_has_an_address_in_the_end() -> None:
    check_scene(
        ignore_losses,
        lambda: play_scene(scenes.use_address_during_withdrawal, MemoryYard),
        "lost its address",
    )


def test_an_earlier_wait_for_missing_kinds_does_not_shorten_a_later_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(MemoryTenancy, "rules", Rules(shows_acknowledgement=False))
    stage = partial(MemoryYard, faults=WAITING)
    check_scene(
        keep_waits_across_states, lambda: play_scene(scenes.remove_kinds_twice, stage), GIVEN
    )


def test_a_balancer_that_shows_nothing_is_waited_for_and_then_believed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(MemoryTenancy, "rules", Rules(shows_acknowledgement=False))
    assert _is_released_after(WAIT - 10) is False
    assert _is_released_after(WAIT + 10) is True


def _is_released_after(seconds: float) -> bool:
    """Return whether a range is released `seconds` after its allocation was deleted."""
    tenant = replace(SETTINGS.tenant, metallb_wait=WAIT)
    faults = Faults(settings=replace(SETTINGS, tenant=tenant))

    async def play() -> bool:
        async with anyio.create_task_group() as group:
            stage = MemoryYard(group, faults)
            stage.hold_range("team-a-lb-1", scenes.SECOND)
            for _ in range(2):
                await stage.project(stage.one)
            await stage.release_by_other("team-a-lb-1")
            await stage.clock.advance(seconds)
            await stage.release_by_other("team-a-lb-1", delete=False)
            group.cancel_scope.cancel()
        return not stage.server.has("ipallocations", "team-a-lb-1")

    return asyncio.run(play())
