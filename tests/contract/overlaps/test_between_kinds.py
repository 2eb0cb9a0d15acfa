"""Pools of any two kinds that hand out the same addresses report each other."""

from itertools import combinations

import pytest

from tests.contract.overlaps.lab import IPV4_ONLY, IPV6_ONLY, LOWER, PATHS, UPPER, OverlapLab
from tests.polling import until

pytestmark = pytest.mark.asyncio(loop_scope="package")


def can_share_family(first: str, other: str) -> bool:
    """Return whether pools of two kinds can be of the same family."""
    return not ({first, other} & IPV6_ONLY and {first, other} & IPV4_ONLY)


PAIRS = [pair for pair in combinations(PATHS, 2) if can_share_family(*pair)]
VALIDATED = [kind for kind in PATHS if kind != "NetworkNamespace"]
"""The kinds that a webhook validates."""


@pytest.mark.parametrize(("first", "other"), PAIRS)
async def test_two_pools_report_their_common_addresses_until_one_is_corrected_or_deleted(
    lab: OverlapLab, first: str, other: str
) -> None:
    lab.ipv6 = bool({first, other} & IPV6_ONLY)
    await lab.create(first)
    await lab.create(other, UPPER)
    await lab.wait_until_apart(first)
    await lab.wait_until_apart(other)
    assert not await lab.list_overlap_notes(), "they divide the addresses of one CIDR"
    await lab.change_half(other, LOWER)
    await lab.wait_until_overlapping(first, other)
    await lab.wait_until_overlapping(other, first)
    await lab.change_half(first, UPPER)
    await lab.wait_until_apart(first)
    await lab.wait_until_apart(other)
    await lab.change_half(first, LOWER)
    await lab.wait_until_overlapping(other, first)
    await lab.delete(first)
    await lab.wait_until_apart(other)


@pytest.mark.parametrize(
    ("new", "other"),
    [
        pair
        for first, other in PAIRS
        for pair in ((first, other), (other, first))
        if pair[0] in VALIDATED
    ],
)
async def test_a_webhook_warns_about_an_overlap_with_a_pool_of_another_kind(
    lab: OverlapLab, new: str, other: str
) -> None:
    lab.ipv6 = bool({new, other} & IPV6_ONLY)
    await lab.create(other)

    async def read_warnings() -> list[str]:
        """Create the new pool and delete it again; return the warnings.

        The webhook may read the other pool in its cache only after some tries.
        """
        await lab.create(new)
        shown_warnings = lab.warnings
        await lab.delete(new)
        return shown_warnings

    shared = f"addresses are also handed out by {lab.get_full_name(other)}"
    await until(read_warnings, lambda warnings: any(shared in warning for warning in warnings))


async def test_a_networkpool_names_the_pools_of_all_kinds_that_share_its_addresses(
    lab: OverlapLab,
) -> None:
    kinds = ["InClusterIPPool", "IPAMPool", "NetworkNamespace"]
    for kind in ["NetworkPool", *kinds]:
        await lab.create(kind)
    for kind in kinds:
        await lab.wait_until_overlapping("NetworkPool", kind)
        await lab.wait_until_overlapping(kind, "NetworkPool")


async def test_conditions_about_overlaps_are_not_written_again(lab: OverlapLab) -> None:
    """The pools of the test do not change while other pools are created."""
    kinds = ["NetworkPool", "GlobalInClusterIPPool", "NetworkNamespace"]
    for kind in [*kinds, "IPAMPool"]:
        await lab.create(kind)
    for kind in kinds:
        for other in [*kinds, "IPAMPool"]:
            if kind != other:
                await lab.wait_until_overlapping(kind, other)
    # A pool that is created after the last of these writes, and served, is behind them.
    versions = {kind: (await lab.find(kind))["metadata"]["resourceVersion"] for kind in kinds}
    later = OverlapLab(lab.admin, lab.number + 100)
    await later.create("NetworkPool")
    await later.wait_until_apart("NetworkPool")
    await later.create("GlobalInClusterIPPool")
    await later.wait_until_overlapping("NetworkPool", "GlobalInClusterIPPool")
    assert versions == {
        kind: (await lab.find(kind))["metadata"]["resourceVersion"] for kind in kinds
    }
