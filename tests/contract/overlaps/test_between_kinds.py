"""Pools of any two kinds that hand out the same addresses say so, each of the other."""

from itertools import combinations

import pytest

from tests.contract.overlaps.lab import IPV4_ONLY, IPV6_ONLY, LOWER, PATHS, UPPER, Lab
from tests.polling import until

pytestmark = pytest.mark.asyncio(loop_scope="package")


def of_one_family(first: str, other: str) -> bool:
    """Return whether pools of two kinds can be of the same family."""
    return not ({first, other} & IPV6_ONLY and {first, other} & IPV4_ONLY)


PAIRS = [pair for pair in combinations(PATHS, 2) if of_one_family(*pair)]
VALIDATED = [kind for kind in PATHS if kind != "NetworkNamespace"]
"""The kinds that a webhook validates."""


@pytest.mark.parametrize(("first", "other"), PAIRS)
async def test_two_pools_say_that_they_share_addresses_until_one_of_them_is_corrected(
    lab: Lab, first: str, other: str
) -> None:
    lab.ipv6 = bool({first, other} & IPV6_ONLY)
    await lab.create(first)
    await lab.create(other, UPPER)
    await lab.says_nothing(first)
    await lab.says_nothing(other)
    assert not await lab.notes(), "they divide the addresses of one CIDR"
    await lab.move(other, LOWER)
    await lab.says(first, other)
    await lab.says(other, first)
    await lab.move(first, UPPER)
    await lab.says_nothing(first)
    await lab.says_nothing(other)
    await lab.move(first, LOWER)
    await lab.says(other, first)
    await lab.delete(first)
    await lab.says_nothing(other)


@pytest.mark.parametrize(
    ("new", "other"),
    [
        pair
        for first, other in PAIRS
        for pair in ((first, other), (other, first))
        if pair[0] in VALIDATED
    ],
)
async def test_a_webhook_warns_of_pools_of_other_kinds_in_the_same_words(
    lab: Lab, new: str, other: str
) -> None:
    lab.ipv6 = bool({new, other} & IPV6_ONLY)
    await lab.create(other)

    async def warnings() -> list[str]:
        """Create the new pool; delete it again, as webhooks may hear of the other a bit later."""
        await lab.create(new)
        shown_warnings = lab.warnings
        await lab.delete(new)
        return shown_warnings

    shared = f"addresses are also handed out by {lab.full_name(other)}"
    await until(warnings, lambda warnings: any(shared in warning for warning in warnings))


async def test_a_networkpool_names_the_pools_of_all_kinds_that_share_its_addresses(
    lab: Lab,
) -> None:
    kinds = ["InClusterIPPool", "IPAMPool", "NetworkNamespace"]
    for kind in ["NetworkPool", *kinds]:
        await lab.create(kind)
    for kind in kinds:
        await lab.says("NetworkPool", kind)
        await lab.says(kind, "NetworkPool")


async def test_conditions_are_written_once_and_rest(lab: Lab) -> None:
    kinds = ["NetworkPool", "GlobalInClusterIPPool", "NetworkNamespace"]
    for kind in [*kinds, "IPAMPool"]:
        await lab.create(kind)
    for kind in kinds:
        for other in [*kinds, "IPAMPool"]:
            if kind != other:
                await lab.says(kind, other)
    # A pool that is created after the last of these writes, and served, is behind them.
    versions = {kind: (await lab.find(kind))["metadata"]["resourceVersion"] for kind in kinds}
    later = Lab(lab.admin, lab.number + 100)
    await later.create("NetworkPool")
    await later.says_nothing("NetworkPool")
    await later.create("GlobalInClusterIPPool")
    await later.says("NetworkPool", "GlobalInClusterIPPool")
    assert versions == {
        kind: (await lab.find(kind))["metadata"]["resourceVersion"] for kind in kinds
    }
