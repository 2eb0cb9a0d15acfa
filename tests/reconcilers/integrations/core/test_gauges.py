"""Figures of pools are kept from scrape to scrape until an object changes."""

from datetime import timedelta

from prometheus_client.registry import CollectorRegistry

from allocator import Capacity
from controller.meta import Key
from reconcilers.integrations.core.gauges import KeptFigures, PoolGauges
from reconcilers.pictures.poolpicture import FamilyFigures, PoolFigures
from reconcilers.spaces.offers import PoolName
from tests.clock import VirtualClock


async def test_figures_are_computed_again_only_after_a_change_and_waiting_requests_age() -> None:
    """A request of pool `p` has waited for seven seconds at first; pool `q` has no request."""
    clock, computations = VirtualClock(), 0
    families = (
        FamilyFigures(Capacity(8, 3, available=5, largest_free=5, fragmentation_percent=0)),
    )
    since = clock.now() - timedelta(seconds=7)
    names = [PoolName("IPAMPool", Key("", name)) for name in ("p", "q")]

    def list_figures() -> list[PoolFigures]:
        nonlocal computations
        computations += 1
        return [
            PoolFigures(names[0], "", families=families, waiting=1, waiting_since=since),
            PoolFigures(names[1], "", families),
        ]

    figures, registry = KeptFigures(list_figures), CollectorRegistry()
    labels = {"pool": lambda figures: figures.name.key.name}
    registry.register(
        PoolGauges("pools", "a pool", labels=labels, list_figures=figures, clock=clock)
    )

    def scrape_ages() -> list[float | None]:
        """Return for both pools the age of the oldest waiting request, in seconds."""
        return [
            registry.get_sample_value("pools_oldest_waiting_seconds", {"pool": name})
            for name in ("p", "q")
        ]

    assert scrape_ages() == [7.0, 0.0]
    assert registry.get_sample_value("pools_used", {"pool": "p"}) == 3
    await clock.advance(30)
    assert scrape_ages() == [37.0, 0.0]
    assert computations == 1
    figures.drop(None)
    assert scrape_ages() == [37.0, 0.0]
    assert computations == 2
