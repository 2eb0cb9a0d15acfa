"""Figures of pools that are kept from scrape to scrape."""

from datetime import datetime

from reconcilers.integrations.core.gauges import KeptFigures
from reconcilers.integrations.core.views import PoolFigures
from tests.clock import VirtualClock


async def test_figures_are_worked_out_again_only_after_a_change_and_who_waits_ages() -> None:
    clock, worked_out = VirtualClock(), list[datetime]()

    def work_out(now: datetime) -> list[PoolFigures]:
        worked_out.append(now)
        return [PoolFigures(("p",), 8, 3, 5, 0, 1, 7.0), PoolFigures(("q",), 8, 3, 5, 0, 0, 0.0)]

    figures = KeptFigures(work_out, clock)
    assert [one.oldest for one in figures()] == [7.0, 0.0]
    await clock.advance(30)
    assert [one.oldest for one in figures()] == [37.0, 0.0]
    assert len(worked_out) == 1
    figures.note(None)
    assert [one.oldest for one in figures()] == [7.0, 0.0]
    assert len(worked_out) == 2
