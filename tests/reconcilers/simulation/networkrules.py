"""How each rule by which no address of a network is given twice is switched off, one by one."""

from collections.abc import Callable
from typing import Any

import pytest

from reconcilers.integrations.vitistack import configurations, networks, reading
from reconcilers.integrations.vitistack.caches import VitistackCaches
from reconcilers.integrations.vitistack.interfaces import WantedStatus, compute_wanted_status
from tests.reconcilers.simulation import journalrules
from tests.reconcilers.simulation.journalrules import (
    promises_dropped_at_once,
    promises_not_taken_by,
    unreadable_requests_are_gone,
    without_precondition,
)
from tests.reconcilers.simulation.model import NETWORK_ADDRESSES, NETWORKS

Patch = pytest.MonkeyPatch


def promises_not_taken(mp: Patch) -> None:
    """What is promised may be chosen again."""
    promises_not_taken_by(mp, networks)


def revision_not_raised(mp: Patch) -> None:
    """The journal does not say how far one has to have read."""
    journalrules.revision_not_raised(mp, networks)


def dropped_at_once(mp: Patch) -> None:
    """The next write of the journal forgets what was promised before."""
    promises_dropped_at_once(mp, networks)


def written_at_any_version(mp: Patch) -> None:
    """An IPAllocation is given its address whatever it has become meanwhile."""
    without_precondition(mp, NETWORK_ADDRESSES, "status")


def networks_written_blindly(mp: Patch) -> None:
    """A journal is written whatever the network has become meanwhile."""
    without_precondition(mp, NETWORKS, "metadata")


def another_instead(mp: Patch) -> None:
    """Who requests an address that is taken gets another."""
    mp.setattr(
        networks.NetworkTaker, "_take_exactly", lambda self, output, key: self._take_lowest()
    )


def ready_by_what_is_there(mp: Patch) -> None:
    """A configuration is Ready once all IPAllocations that the cache shows have addresses."""

    def hasty(allocation: Any, allocations: Any) -> Any:
        said = compute_wanted_status(allocation, allocations)
        if said.phase == "Pending" and all(
            allocation.holds for allocation in allocations.values()
        ):
            return WantedStatus(
                "Ready",
                "Success",
                reason="Configured",
                message="All allocated",
                interfaces=said.interfaces,
            )
        return said

    mp.setattr(configurations, "compute_wanted_status", hasty)


def unreadable_objects_hold_nothing(mp: Patch) -> None:
    """An object that cannot be decoded counts as one that is not there."""
    mp.setattr(VitistackCaches, "check_readable", lambda self, *arguments: None)


def promises_to_the_unreadable_settled(mp: Patch) -> None:
    """What is promised to an IPAllocation that cannot be decoded is forgotten."""
    unreadable_requests_are_gone(mp, networks)


def shown_addresses_free_by_the_cache(mp: Patch) -> None:
    """What a machine shows is free if an IPAllocation of the cache holds it."""
    mp.setattr(reading, "_list_shown", _held_left_out(reading._list_shown))


def _held_left_out(shown_by: Callable[..., frozenset[str]]) -> Callable[..., frozenset[str]]:
    def shown_unheld(configuration: Any, allocations: Any) -> frozenset[str]:
        addresses = {allocation.status.address for allocation in allocations if allocation.holds}
        return shown_by(configuration, allocations) - addresses

    return shown_unheld
