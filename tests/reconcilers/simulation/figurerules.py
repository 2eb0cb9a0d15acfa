"""Switches for the rule that differing figures are written, one for each kind of pools."""

from collections.abc import Mapping
from typing import Any

import pytest

from reconcilers.api.networkpool import NetworkPoolStatus
from reconcilers.integrations.clusterapi import poolstatus
from reconcilers.integrations.vitistack.writing import NetworkStatuses
from reconcilers.networkpool import status
from reconcilers.reporting.conditions import render_conditions

Patch = pytest.MonkeyPatch


def keep_networkpool_figures(mp: Patch) -> None:
    """Do not write the status of a NetworkPool if only its figures differ."""
    differs = status.differs
    figures = {
        *("totalIPs", "allocatedIPs", "availableIPs", "largestFreeBlock", "fragmentationPercent"),
        *("utilizationPercent", "allocationCount", "secondary", "conditions"),
    }

    def differs_beside_figures(has: NetworkPoolStatus, expected: Mapping[str, Any]) -> bool:
        others = {name: value for name, value in expected.items() if name not in figures}
        return not has.conditions or differs(
            has, others | {"conditions": render_conditions(has.conditions)}
        )

    mp.setattr(status, "differs", differs_beside_figures)


def keep_claim_pool_figures(mp: Patch) -> None:
    """Write the figures of an in-cluster pool only once."""
    render_patch = poolstatus.render_patch

    def render_first_counts(pool: Any, counts: Any, *args: Any, **how: Any) -> Mapping[str, Any]:
        return render_patch(pool, pool.status.ipAddresses or counts, *args, **how)

    mp.setattr(poolstatus, "render_patch", render_first_counts)


def keep_network_figures(mp: Patch) -> None:
    """Write the figures of vitistack's network only once."""
    counts = NetworkStatuses._build_counts

    def build_first_counts(
        self: NetworkStatuses, network: Any, *args: Any, **keywords: Any
    ) -> dict[str, Any]:
        is_shown = network.status.ipAllocationSummary is not None
        return {} if is_shown else counts(self, network, *args, **keywords)

    mp.setattr(NetworkStatuses, "_build_counts", build_first_counts)
