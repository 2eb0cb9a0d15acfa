"""Switches for the rules by which no address of a network is given twice.

Each function switches one rule off. Its docstring says what the code does without the rule.
"""

from collections.abc import Callable
from typing import Any

import pytest

from reconcilers.integrations.vitistack import configurations, networks, reading
from reconcilers.integrations.vitistack.caches import VitistackCaches
from reconcilers.integrations.vitistack.interfaces import WantedStatus, compute_wanted_status
from tests.reconcilers.simulation import journalrules
from tests.reconcilers.simulation.journalrules import (
    forget_promises_in,
    forget_unreadable_requests_in,
    ignore_promises_in,
    patch_field_at_any_version,
)
from tests.reconcilers.simulation.model import NETWORK_ADDRESSES, NETWORKS

Patch = pytest.MonkeyPatch


def ignore_promises(mp: Patch) -> None:
    """Let promised addresses be chosen again."""
    ignore_promises_in(mp, networks)


def keep_revision(mp: Patch) -> None:
    """Do not record in the journal how far other replicas have to read."""
    journalrules.keep_revision(mp, networks)


def forget_promises_at_once(mp: Patch) -> None:
    """Drop all promises at the next write of the journal."""
    forget_promises_in(mp, networks)


def write_requests_at_any_version(mp: Patch) -> None:
    """Write the address of an IPAllocation whatever it has become since the promise."""
    patch_field_at_any_version(mp, NETWORK_ADDRESSES, "status")


def write_pools_at_any_version(mp: Patch) -> None:
    """Write a journal whatever the network has become meanwhile."""
    patch_field_at_any_version(mp, NETWORKS, "metadata")


def give_another_address(mp: Patch) -> None:
    """Give an IPAllocation another address if the address that it requests is taken."""
    mp.setattr(
        networks.NetworkTaker, "_take_exactly", lambda self, output, key: self._take_lowest()
    )


def report_ready_by_existing_allocations(mp: Patch) -> None:
    """Report Ready once all cached IPAllocations have addresses, even if some are missing."""

    def compute_early_status(allocation: Any, allocations: Any) -> Any:
        status = compute_wanted_status(allocation, allocations)
        if status.phase == "Pending" and all(
            allocation.holds for allocation in allocations.values()
        ):
            return WantedStatus(
                "Ready",
                "Success",
                reason="Configured",
                message="All allocated",
                interfaces=status.interfaces,
            )
        return status

    mp.setattr(configurations, "compute_wanted_status", compute_early_status)


def ignore_unreadable_objects(mp: Patch) -> None:
    """Treat an object that cannot be decoded as one that does not exist."""
    mp.setattr(VitistackCaches, "check_readable", lambda self, *arguments: None)


def settle_promises_to_the_unreadable(mp: Patch) -> None:
    """Settle the promise to an IPAllocation that cannot be decoded, as if it were gone."""
    forget_unreadable_requests_in(mp, networks)


def free_shown_addresses_by_cache(mp: Patch) -> None:
    """Treat an address that a machine shows as free if a cached IPAllocation holds it."""
    mp.setattr(reading, "_list_shown", _omit_held_addresses(reading._list_shown))


def _omit_held_addresses(
    list_shown: Callable[..., frozenset[str]],
) -> Callable[..., frozenset[str]]:
    """Return a `_list_shown` that leaves out the addresses that IPAllocations hold."""

    def list_unheld(configuration: Any, allocations: Any) -> frozenset[str]:
        addresses = {allocation.status.address for allocation in allocations if allocation.holds}
        return list_shown(configuration, allocations) - addresses

    return list_unheld
